// The one list of ops, registered when the library is loaded, by Node.js or by Python's tf.load_op_library.
#include <cstdio>
#include <string>

#include "ops.h"
#include "tensorflow/c/tf_buffer.h"

#ifdef LM_HEAD_CUDA
#include <cuda_runtime_api.h>
#endif

extern "C" TF_Buffer* TF_GetRegisteredKernelsForOp(const char* name, TF_Status* status);

namespace lm_head {
namespace {

// TensorFlow aborts the process when an op is defined twice, so a second copy of this library must stay silent.
bool alreadyRegistered() {
  Status status;
  TF_Buffer* kernels = TF_GetRegisteredKernelsForOp("LmHeadTopK", status);
  const bool found = TF_GetCode(status) == TF_OK && kernels != nullptr && kernels->length > 0;
  TF_DeleteBuffer(kernels);
  return found;
}

std::string& registrationError() {
  static std::string error;
  return error;
}

__attribute__((constructor)) void registerAll() {
  try {
    if (alreadyRegistered()) return;
    registerLmHeadTopK();
    registerLmHeadDraw();
    registerLmHeadScores();
    registerPackHalf();
    registerBinarizeHead();
    registerPackBinary();
    registerQuantizeActivations();
    registerVocabParallelArgmax();
  } catch (const std::exception& error) {
    registrationError() = error.what();
    std::fprintf(stderr, "tfjs-lm-head: registering the ops failed: %s\n", error.what());
  }
}

}  // namespace

const char* registrationErrorText() { return registrationError().c_str(); }

}  // namespace lm_head

// What the addon asks this library, by these names.
extern "C" {

__attribute__((visibility("default"))) const char* lmHeadRegistrationError() {
  return lm_head::registrationErrorText();
}

#ifdef LM_HEAD_CUDA
__attribute__((visibility("default"))) const char* lmHeadCudaArchitectures() { return LM_HEAD_CUDA; }
__attribute__((visibility("default"))) int lmHeadGpuCount() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}
#else
__attribute__((visibility("default"))) const char* lmHeadCudaArchitectures() { return ""; }
__attribute__((visibility("default"))) int lmHeadGpuCount() { return 0; }
#endif

}  // extern "C"
