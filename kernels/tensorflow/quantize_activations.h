// The two implementations of the QuantizeActivations op.
#pragma once

#include "../core/quantize_activations_args.h"
#include "tf_api.h"

namespace lm_head {

// One row to q; returns its scale. To be called with denormals kept.
float quantizeRow(const float* hidden, int64_t hiddenSize, int32_t* q);

void quantizeActivationsCpu(const QuantizeActivationsArgs& args);
void quantizeActivationsGpu(const OpContext& context, const QuantizeActivationsArgs& args);

}  // namespace lm_head
