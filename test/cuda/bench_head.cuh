// A head of random numbers, made on the device; its first column can be set, so that scores come in a wanted order.
#pragma once

#include <vector>

#include "lm_head_topk_case.cuh"

namespace test {

static __global__ void fillRandom(uint32_t* data, int64_t count, uint32_t andMask, uint32_t orMask) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ull;
    data[i] = (static_cast<uint32_t>(x >> 29) & andMask) | orMask;
  }
}

// Scales of 2^-7 to 1 in place of the random words behind the bits of each tile.
static __global__ void fillScales(uint32_t* data, lm_head::BinaryLayout layout) {
  uint32_t* tile = data + blockIdx.x * layout.tileWords();
  for (int64_t i = layout.bitWords() + threadIdx.x; i < layout.tileWords(); i += blockDim.x)
    tile[i] = (tile[i] & 0x0fff0fffu) | 0x20002000u;
}

// column[id] becomes the weight (id, 0); of a binary head, its bit and the scale of its group.
static __global__ void setColumn(LmHeadTopKArgs args, uint32_t* weight, const float* column) {
  const int64_t id = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (id >= args.vocabSize) return;
  const float value = column[id];
  const int64_t at = id * args.weightRowStride;
  if (args.format == HeadFormat::kFloat32) reinterpret_cast<float*>(weight)[at] = value;
  if (args.format == HeadFormat::kBfloat16) reinterpret_cast<__nv_bfloat16*>(weight)[at] = __float2bfloat16_rn(value);
  if (args.format == HeadFormat::kFloat16) reinterpret_cast<__half*>(weight)[at] = __float2half_rn(value);
  if (args.format != HeadFormat::kBinary) return;
  const lm_head::BinaryLayout layout{args.hiddenSize, args.groupSize};
  const int inTile = static_cast<int>(id % lm_head::BinaryLayout::kTileIds);
  uint32_t* tile = weight + id / lm_head::BinaryLayout::kTileIds * layout.tileWords();
  uint32_t& word = tile[layout.wordOffset(inTile, 0)];
  word = value < 0 ? word & ~1u : word | 1u;
  reinterpret_cast<__half*>(tile)[layout.scaleOffset(inTile, 0)] = __float2half_rn(fabsf(value));
}

class BenchHead {
 public:
  // Columns that share a scale: 128, or where they are no multiple of it, 64.
  static int64_t groupSize(int64_t hidden) { return hidden % 128 == 0 ? 128 : 64; }

  BenchHead(HeadFormat format, int64_t vocab, int64_t hidden)
      : format_(format), vocab_(vocab), hidden_(hidden), weight_(headBytes(format, vocab, hidden) / 4) {
    const int64_t words = bytes() / 4;
    // Random bits, with exponents that keep the numbers in about 2^-7 .. 1.
    if (format == HeadFormat::kFloat32) fill(words, 0xbdffffffu, 0x3c000000u);
    if (format == HeadFormat::kBfloat16) fill(words, 0xbdffbdffu, 0x3c003c00u);
    if (format == HeadFormat::kFloat16) fill(words, 0xafffafffu, 0x20002000u);
    if (format == HeadFormat::kBinary) {
      fill(words, 0xffffffffu, 0);
      const auto tiles = static_cast<unsigned>(lm_head::BinaryLayout::tiles(vocab));
      fillScales<<<tiles, 256>>>(weight_.data(), {hidden, groupSize(hidden)});
      must(cudaGetLastError(), "fill scales");
    }
  }

  int64_t bytes() const { return static_cast<int64_t>(weight_.size()) * 4; }
  const void* data() const { return weight_.data(); }

  // The head's part of a call's arguments.
  LmHeadTopKArgs args() const {
    LmHeadTopKArgs args{};
    args.format = format_;
    args.vocabSize = vocab_;
    args.hiddenSize = hidden_;
    args.weight = weight_.data();
    args.weightRowStride = hidden_;
    args.weightColumnStride = 1;
    args.groupSize = groupSize(hidden_);
    return args;
  }

  // `values`, one an id, are numbers of the head's format, of a binary head numbers whose magnitudes are float16.
  void setFirstColumn(const std::vector<float>& values) {
    const DeviceArray<float> column(values);
    setColumn<<<static_cast<unsigned>((vocab_ + 255) / 256), 256>>>(args(), weight_.data(), column.data());
    must(cudaGetLastError(), "set a column");
    must(cudaDeviceSynchronize(), "set a column");
  }

 private:
  static int64_t headBytes(HeadFormat format, int64_t vocab, int64_t hidden) {
    const lm_head::BinaryLayout layout{hidden, groupSize(hidden)};
    if (format == HeadFormat::kBinary) return lm_head::BinaryLayout::tiles(vocab) * layout.tileWords() * 4;
    return vocab * hidden * (format == HeadFormat::kFloat32 ? 4 : 2);
  }

  void fill(int64_t words, uint32_t andMask, uint32_t orMask) {
    fillRandom<<<1024, 256>>>(weight_.data(), words, andMask, orMask);
    must(cudaGetLastError(), "fill with random numbers");
  }

  HeadFormat format_;
  int64_t vocab_, hidden_;
  DeviceArray<uint32_t> weight_;
};

}  // namespace test
