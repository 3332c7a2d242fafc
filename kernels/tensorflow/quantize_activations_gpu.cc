#include "../../cuda/pack/quantize_activations.h"
#include "quantize_activations.h"
#include "stream.h"

namespace lm_head {

void quantizeActivationsGpu(const OpContext& context, const QuantizeActivationsArgs& args) {
  checkCuda(launchQuantizeActivations(args, streamOf(context)), "QuantizeActivations");
}

}  // namespace lm_head
