// PackBinary and UnpackBinary as TensorFlow ops: the bits and scales of a binary head to the one tensor that LmHeadTopK
// reads, and back.
#include "checks.h"
#include "ops.h"
#include "pack_binary.h"

namespace lm_head {
namespace {

class PackBinaryKernel {
 public:
  explicit PackBinaryKernel(const OpAttributes& attributes) : groupSize_(attributes.integer("group_size")) {}

  template <Device kDevice>
  void compute(const OpContext& context) const {
    const Tensor bits = context.input(0), scales = context.input(1);
    require(bits.rank() == 2, "PackBinary: input 'bits' must have rank 2, but got shape " + bits.shape());
    PackBinaryArgs args{};
    args.layout = {32 * bits.dim(1), groupSize_};
    args.vocabSize = bits.dim(0);
    requireGroupSize("PackBinary", groupSize_, args.layout.hiddenSize);
    requireShape("PackBinary", "scales", scales, {args.vocabSize, args.layout.groups()});
    const Tensor packed = context.output(0, TF_INT32, {BinaryLayout::tiles(args.vocabSize), args.layout.tileWords()});
    if (packed.size() == 0) return;
    args.bits = bits.data<const uint32_t>();
    args.scales = scales.data<const float>();
    args.packed = packed.data<uint32_t>();
    if constexpr (kDevice == Device::kGpu) {
      packBinaryGpu(context, args);
    } else {
      packBinaryCpu(args);
    }
  }

 private:
  int64_t groupSize_;
};

class UnpackBinaryKernel {
 public:
  explicit UnpackBinaryKernel(const OpAttributes& attributes)
      : layout_{attributes.integer("hidden_size"), attributes.integer("group_size")},
        vocabSize_(attributes.integer("vocab_size")) {
    require(0 <= vocabSize_ && vocabSize_ <= INT32_MAX,
            "UnpackBinary: attribute 'vocab_size' must be 0 to 2^31 - 1, but got " + std::to_string(vocabSize_));
    requireGroupSize("UnpackBinary", layout_.groupSize, layout_.hiddenSize);
  }

  template <Device kDevice>
  void compute(const OpContext& context) const {
    const Tensor packed = context.input(0);
    requireShape("UnpackBinary", "packed", packed, {BinaryLayout::tiles(vocabSize_), layout_.tileWords()});
    const Tensor bits = context.output(0, TF_INT32, {vocabSize_, layout_.words()});
    const Tensor scales = context.output(1, TF_FLOAT, {vocabSize_, layout_.groups()});
    if (packed.size() == 0) return;
    const UnpackBinaryArgs args{layout_, vocabSize_, packed.data<const uint32_t>(), bits.data<uint32_t>(),
                                scales.data<float>()};
    if constexpr (kDevice == Device::kGpu) {
      unpackBinaryGpu(context, args);
    } else {
      unpackBinaryCpu(args);
    }
  }

 private:
  BinaryLayout layout_;
  int64_t vocabSize_;
};

}  // namespace

void registerPackBinary() {
  defineOp("PackBinary", {"bits: int32", "scales: float"}, {"packed: int32"}, {"group_size: int"});
  registerKernel<PackBinaryKernel>("PackBinary");
  defineOp("UnpackBinary", {"packed: int32"}, {"bits: int32", "scales: float"},
           {"vocab_size: int", "hidden_size: int", "group_size: int"});
  registerKernel<UnpackBinaryKernel>("UnpackBinary");
}

}  // namespace lm_head
