// BinarizeHead as a TensorFlow op: float32 weights to one bit each and a scale a group.
#include "binarize_head.h"
#include "checks.h"
#include "ops.h"

namespace lm_head {
namespace {

class BinarizeHeadKernel {
 public:
  explicit BinarizeHeadKernel(const OpAttributes& attributes) : groupSize_(attributes.integer("group_size")) {}

  template <Device kDevice>
  void compute(const OpContext& context) const {
    const Tensor weight = context.input(0);
    require(weight.rank() == 2,
            [&] { return "BinarizeHead: input 'weight' must have rank 2, but got shape " + weight.shape(); });
    BinarizeHeadArgs args{};
    args.rows = weight.dim(0);
    args.columns = weight.dim(1);
    args.groupSize = groupSize_;
    requireGroupSize("BinarizeHead", groupSize_, args.columns);
    const Tensor bits = context.output(0, TF_INT32, {args.rows, args.columns / 32});
    const Tensor scales = context.output(1, TF_FLOAT, {args.rows, args.columns / groupSize_});
    if (weight.size() == 0) return;
    args.weight = weight.data<const float>();
    args.bits = bits.data<uint32_t>();
    args.scales = scales.data<float>();
    if constexpr (kDevice == Device::kGpu) {
      binarizeHeadGpu(context, args);
    } else {
      binarizeHeadCpu(args);
    }
  }

 private:
  int64_t groupSize_;
};

}  // namespace

void registerBinarizeHead() {
  defineOp("BinarizeHead", {"weight: float"}, {"bits: int32", "scales: float"}, {"group_size: int"});
  registerKernel<BinarizeHeadKernel>("BinarizeHead");
}

}  // namespace lm_head
