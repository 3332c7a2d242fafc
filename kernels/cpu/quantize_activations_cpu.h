// QuantizeActivations on the CPU.
#pragma once

#include "../core/quantize_activations_args.h"

namespace lm_head {

// One row to q; returns its scale. To be called with denormals kept.
float quantizeRow(const float* hidden, int64_t hiddenSize, int32_t* q);

void quantizeActivationsCpu(const QuantizeActivationsArgs& args);

}  // namespace lm_head
