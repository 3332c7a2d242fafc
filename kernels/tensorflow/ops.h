// How an op of this library becomes known to TensorFlow; register.cc calls every register function once.
#pragma once

#include <string>
#include <vector>

#include "tf_api.h"

namespace lm_head {

// Output shapes are left unknown to TensorFlow's graph functions: they follow from attributes, which its C API does not
// show to shape functions.
inline void unknownShapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeInferenceContextSetUnknownShape(context, status);
}

inline void defineOp(const char* name, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                     const std::vector<std::string>& attributes) {
  TF_OpDefinitionBuilder* builder = TF_NewOpDefinitionBuilder(name);
  for (const std::string& attribute : attributes) TF_OpDefinitionBuilderAddAttr(builder, attribute.c_str());
  for (const std::string& input : inputs) TF_OpDefinitionBuilderAddInput(builder, input.c_str());
  for (const std::string& output : outputs) TF_OpDefinitionBuilderAddOutput(builder, output.c_str());
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, unknownShapes);
  Status status;
  TF_RegisterOpDefinition(builder, status);  // takes the builder
  status.check();
}

template <class Kernel>
void registerKernel(const char* op, const std::vector<TypeConstraint>& constraints = {},
                    const std::vector<const char*>& hostOutputs = {}) {
  KernelRegistration<Kernel, Device::kCpu>::run(op, constraints, hostOutputs);
#ifdef LM_HEAD_CUDA
  KernelRegistration<Kernel, Device::kGpu>::run(op, constraints, hostOutputs);
#endif
}

void registerLmHeadTopK();
void registerLmHeadDraw();
void registerLmHeadScores();
void registerPackHalf();
void registerBinarizeHead();
void registerPackBinary();
void registerQuantizeActivations();
void registerVocabParallelArgmax();

}  // namespace lm_head
