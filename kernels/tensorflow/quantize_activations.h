// The two implementations of the QuantizeActivations op.
#pragma once

#include "../cpu/quantize_activations_cpu.h"
#include "tf_api.h"

namespace lm_head {

void quantizeActivationsGpu(const OpContext& context, const QuantizeActivationsArgs& args);

}  // namespace lm_head
