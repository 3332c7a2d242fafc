// TF_GetStream serves pluggable devices only, so this one file reads TensorFlow's own context: inline accessors of the
// wheel's headers, no symbol of TensorFlow's. It must be compiled against the headers of the TensorFlow that runs it.
#include "stream.h"

#include "tensorflow/core/framework/op_kernel.h"
#include "xla/stream_executor/stream.h"

namespace lm_head {

cudaStream_t streamOf(const OpContext& context) {
  auto* opContext = reinterpret_cast<tensorflow::OpKernelContext*>(context.get());
  return static_cast<cudaStream_t>(opContext->op_device_context()->stream()->platform_specific_handle().stream);
}

}  // namespace lm_head
