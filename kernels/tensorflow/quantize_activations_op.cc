// QuantizeActivations as a TensorFlow op: float32 [..., hiddenSize] to int32 in [-127, 127], and a scale a row.
#include <vector>

#include "ops.h"
#include "quantize_activations.h"

namespace lm_head {
namespace {

class QuantizeActivationsKernel {
 public:
  explicit QuantizeActivationsKernel(const OpAttributes&) {}

  template <Device kDevice>
  void compute(const OpContext& context) const {
    const Tensor hidden = context.input(0);
    require(hidden.rank() >= 1, "QuantizeActivations: input 'hidden' must have rank 1 or higher, but got a scalar");
    const std::vector<int64_t> leading = hidden.leadingShape();
    std::vector<int64_t> shape = leading;
    shape.push_back(hidden.dim(hidden.rank() - 1));
    const Tensor q = context.output(0, TF_INT32, shape);
    const Tensor scale = context.output(1, TF_FLOAT, leading);
    QuantizeActivationsArgs args{};
    args.hidden = hidden.data<const float>();
    args.rows = scale.size();
    args.hiddenSize = shape.back();
    args.q = q.data<int32_t>();
    args.scale = scale.data<float>();
    if (args.rows == 0) return;
    if constexpr (kDevice == Device::kGpu) {
      quantizeActivationsGpu(context, args);
    } else {
      quantizeActivationsCpu(args);
    }
  }
};

}  // namespace

void registerQuantizeActivations() {
  defineOp("QuantizeActivations", {"hidden: float"}, {"q: int32", "scale: float"}, {});
  registerKernel<QuantizeActivationsKernel>("QuantizeActivations");
}

}  // namespace lm_head
