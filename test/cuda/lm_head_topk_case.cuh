// One call of the LM head launcher on random data: inputs on host and device, scratch, outputs.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <memory>

#include "../../cuda/lm_head/lm_head.h"
#include "../../kernels/core/binary_layout.h"
#include "../../kernels/core/log_sum.h"
#include "harness.cuh"

namespace test {

using lm_head::HeadFormat;
using lm_head::LmHeadTopKArgs;

// How cases run from now on.
inline lm_head::Tuning tuning;

inline const char* formatName(HeadFormat format) {
  static const char* names[] = {"float32", "bfloat16", "float16", "binary"};
  return names[static_cast<int>(format)];
}

struct Shape {
  HeadFormat format;
  int64_t rows, vocab, hidden;
  int64_t k;
  bool bias = false;
  bool transposed = false;
  int64_t groupSize = 128;
  bool integers = false;  // small whole numbers: scores are exact and full of ties
  bool logSumExp = false;

  std::string name() const {
    return std::string(tuning.path == lm_head::Path::kPortable ? "portable " : "") + formatName(format) + " rows " +
           std::to_string(rows) + " vocab " + std::to_string(vocab) + " hidden " + std::to_string(hidden) + " k " +
           std::to_string(k) + (bias ? " bias" : "") + (transposed ? " transposed" : "") +
           (logSumExp ? " logSumExp" : "") + (integers ? " integers" : "") +
           (format == HeadFormat::kBinary ? " group " + std::to_string(groupSize) : "");
  }
};

inline uint16_t halfBits(float x, HeadFormat format) {
  return format == HeadFormat::kBfloat16 ? __bfloat16_as_ushort(__float2bfloat16_rn(x))
                                         : __half_as_ushort(__float2half_rn(x));
}

inline float halfValue(uint16_t bits, HeadFormat format) {
  return format == HeadFormat::kBfloat16 ? __bfloat162float(__ushort_as_bfloat16(bits))
                                         : __half2float(__ushort_as_half(bits));
}

class LmHeadCase {
 public:
  explicit LmHeadCase(const Shape& shape, uint64_t seed = 1) : shape(shape), random_(seed) {
    hidden = floats(shape.rows * shape.hidden);
    if (shape.bias) bias = floats(shape.vocab);
    if (shape.format == HeadFormat::kFloat32) {
      weight = floats(shape.vocab * shape.hidden);
    } else if (shape.format == HeadFormat::kBinary) {
      words.resize(shape.vocab * shape.hidden / 32);
      for (uint32_t& word : words) word = random_.next();
      const int64_t groups = shape.hidden / shape.groupSize, stride = scaleStride();
      halves.assign(shape.vocab * stride, 0);
      for (int64_t id = 0; id < shape.vocab; ++id) {
        for (int64_t group = 0; group < groups; ++group) {
          halves[id * stride + group] =
              halfBits(shape.integers ? 1.0f : 0.05f + 0.04f * random_.uniform(), HeadFormat::kFloat16);
        }
      }
    } else {
      const int64_t stride = halfStride();
      halves.assign(shape.vocab * stride, 0);
      for (int64_t id = 0; id < shape.vocab; ++id) {
        for (int64_t column = 0; column < shape.hidden; ++column)
          halves[id * stride + column] = halfBits(number(), shape.format);
      }
    }
  }

  int64_t halfStride() const { return (shape.hidden + 7) / 8 * 8; }
  int64_t scaleStride() const { return (shape.hidden / shape.groupSize + 1) / 2 * 2; }

  // Element of a dense head, as the kernel sees it.
  float weightAt(int64_t id, int64_t column) const {
    if (shape.format == HeadFormat::kFloat32)
      return weight[shape.transposed ? column * shape.vocab + id : id * shape.hidden + column];
    return halfValue(halves[id * halfStride() + column], shape.format);
  }

  // Copies the inputs to the device and makes room for outputs.
  void upload() {
    deviceHidden_ = std::make_unique<DeviceArray<float>>(hidden);
    if (!bias.empty()) deviceBias_ = std::make_unique<DeviceArray<float>>(bias);
    if (!weight.empty()) deviceWeight_ = std::make_unique<DeviceArray<float>>(weight);
    if (!words.empty()) deviceWords_ = std::make_unique<DeviceArray<uint32_t>>(packed());
    if (!halves.empty()) deviceHalves_ = std::make_unique<DeviceArray<uint16_t>>(halves);
    deviceValues_ = std::make_unique<DeviceArray<float>>(shape.rows * shape.k);
    deviceIndices_ = std::make_unique<DeviceArray<int32_t>>(shape.rows * shape.k);
    deviceLogSumExp_ = std::make_unique<DeviceArray<float>>(shape.rows);
    deviceLogSumState_ = std::make_unique<DeviceArray<int32_t>>(shape.rows * lm_head::LogSum::kWords);
    size_t bytes = 0;
    must(lm_head::lmHeadTopKScratchBytes(args(), &bytes, tuning), "lmHeadTopKScratchBytes");
    scratch_ = std::make_unique<DeviceArray<unsigned char>>(bytes);
    must(cudaMemset(scratch_->data(), 0xa5, bytes), "poison scratch");
    must(cudaMemset(deviceValues_->data(), 0xa5, shape.rows * shape.k * 4), "poison values");
    must(cudaMemset(deviceIndices_->data(), 0xa5, shape.rows * shape.k * 4), "poison indices");
    must(cudaMemset(deviceLogSumExp_->data(), 0xa5, shape.rows * 4), "poison logSumExp");
    must(cudaMemset(deviceLogSumState_->data(), 0xa5, deviceLogSumState_->size() * 4), "poison logSumState");
  }

  void setHidden(const std::vector<float>& values) {
    hidden = values;
    deviceHidden_->set(values);
  }

  void setBias(const std::vector<float>& values) {
    bias = values;
    deviceBias_->set(values);
  }

  // Hidden holds whole numbers from now on.
  void setHiddenScale(const std::vector<float>& scales) {
    deviceHiddenScale_ = std::make_unique<DeviceArray<float>>(scales);
  }

  LmHeadTopKArgs args() const {
    LmHeadTopKArgs args{};
    args.format = shape.format;
    args.rows = shape.rows;
    args.hiddenSize = shape.hidden;
    args.vocabSize = shape.vocab;
    args.k = shape.k;
    args.hidden = deviceHidden_->data();
    args.hiddenScale = deviceHiddenScale_ ? deviceHiddenScale_->data() : nullptr;
    args.bias = deviceBias_ ? deviceBias_->data() : nullptr;
    args.options = options;
    args.vocabStart = vocabStart;
    args.weightColumnStride = 1;
    if (shape.format == HeadFormat::kFloat32) {
      args.weight = deviceWeight_->data();
      args.weightRowStride = shape.transposed ? 1 : shape.hidden;
      args.weightColumnStride = shape.transposed ? shape.vocab : 1;
    } else if (shape.format == HeadFormat::kBinary) {
      args.weight = deviceWords_->data();
      args.groupSize = shape.groupSize;
    } else {
      args.weight = deviceHalves_->data();
      args.weightRowStride = halfStride();
    }
    args.values = deviceValues_->data();
    args.indices = deviceIndices_->data();
    if (shape.logSumExp) {
      args.logSumExp = deviceLogSumExp_->data();
      args.logSumState = deviceLogSumState_->data();
    }
    return args;
  }

  void launch(cudaStream_t stream = nullptr) const {
    must(lm_head::launchLmHeadTopK(args(), scratch_->data(), stream, tuning), "launchLmHeadTopK");
  }

  void run() {
    launch();
    must(cudaDeviceSynchronize(), "run");
    fetch();
  }

  void fetch() {
    values = deviceValues_->get();
    indices = deviceIndices_->get();
    logSumExp = deviceLogSumExp_->get();
    logSumState = deviceLogSumState_->get();
  }

  size_t scratchBytes() const { return scratch_->size(); }

  Shape shape;
  lm_head::ScoreOptions options{};  // device memory of whoever sets it
  int64_t vocabStart = 0;
  std::vector<float> hidden, bias, weight;
  std::vector<uint32_t> words;   // bits, row by row
  std::vector<uint16_t> halves;  // 16-bit weights, or scales, row by row
  std::vector<float> values;
  std::vector<int32_t> indices;
  std::vector<float> logSumExp;
  std::vector<int32_t> logSumState;

 private:
  // Bits and scales as the kernel reads them.
  std::vector<uint32_t> packed() const {
    const lm_head::BinaryLayout layout{shape.hidden, shape.groupSize};
    std::vector<uint32_t> all(lm_head::BinaryLayout::tiles(shape.vocab) * layout.tileWords());
    for (int64_t id = 0; id < shape.vocab; ++id) {
      const int inTile = static_cast<int>(id % lm_head::BinaryLayout::kTileIds);
      uint32_t* tile = all.data() + id / lm_head::BinaryLayout::kTileIds * layout.tileWords();
      for (int64_t word = 0; word < layout.words(); ++word)
        tile[layout.wordOffset(inTile, word)] = words[id * layout.words() + word];
      for (int64_t group = 0; group < layout.groups(); ++group)
        reinterpret_cast<uint16_t*>(tile)[layout.scaleOffset(inTile, group)] = halves[id * scaleStride() + group];
    }
    return all;
  }

  float number() { return shape.integers ? static_cast<float>(random_.below(5) - 2) : random_.uniform(); }
  std::vector<float> floats(int64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = number();
    return values;
  }

  Random random_;
  std::unique_ptr<DeviceArray<float>> deviceHidden_, deviceHiddenScale_, deviceBias_, deviceWeight_, deviceValues_,
      deviceLogSumExp_;
  std::unique_ptr<DeviceArray<uint32_t>> deviceWords_;
  std::unique_ptr<DeviceArray<uint16_t>> deviceHalves_;
  std::unique_ptr<DeviceArray<int32_t>> deviceIndices_, deviceLogSumState_;
  std::unique_ptr<DeviceArray<unsigned char>> scratch_;
};

}  // namespace test
