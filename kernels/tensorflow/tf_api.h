// TensorFlow's C API with ownership and errors made plain. Nothing else of TensorFlow is used, but for stream.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

namespace lm_head {

// What an op reports to TensorFlow. Thrown inside this library only: every entry from C catches it.
class OpError : public std::runtime_error {
 public:
  OpError(TF_Code code, const std::string& message) : std::runtime_error(message), code(code) {}
  const TF_Code code;
};

// `message()` makes the text, which only a failed check needs: checks run at every call.
template <class Message>
void require(bool condition, Message message) {
  if (!condition) throw OpError(TF_INVALID_ARGUMENT, message());
}

inline void require(bool condition, const std::string& message) {
  if (!condition) throw OpError(TF_INVALID_ARGUMENT, message);
}

inline void require(bool condition, const char* message) {
  if (!condition) throw OpError(TF_INVALID_ARGUMENT, message);
}

class Status {
 public:
  Status() : status_(TF_NewStatus()) {}
  operator TF_Status*() const { return status_.get(); }
  void check() const {
    if (TF_GetCode(status_.get()) != TF_OK) throw OpError(TF_GetCode(status_.get()), TF_Message(status_.get()));
  }

 private:
  struct Delete {
    void operator()(TF_Status* status) const { TF_DeleteStatus(status); }
  };
  std::unique_ptr<TF_Status, Delete> status_;
};

class Tensor {
 public:
  explicit Tensor(TF_Tensor* tensor) : tensor_(tensor) {}
  int rank() const { return TF_NumDims(tensor_.get()); }
  int64_t dim(int axis) const { return TF_Dim(tensor_.get(), axis); }
  int64_t size() const { return TF_TensorElementCount(tensor_.get()); }
  // 0 without a tensor, too.
  int64_t bytes() const { return tensor_ == nullptr ? 0 : static_cast<int64_t>(TF_TensorByteSize(tensor_.get())); }
  // All sizes but the last; the rank is at least 1.
  std::vector<int64_t> leadingShape() const {
    std::vector<int64_t> shape;
    for (int axis = 0; axis < rank() - 1; ++axis) shape.push_back(dim(axis));
    return shape;
  }
  std::string shape() const {
    std::string text = "[";
    for (int axis = 0; axis < rank(); ++axis) text += (axis ? "," : "") + std::to_string(dim(axis));
    return text + "]";
  }
  template <class T>
  T* data() const {
    return static_cast<T*>(TF_TensorData(tensor_.get()));
  }

 private:
  struct Delete {
    void operator()(TF_Tensor* tensor) const { TF_DeleteTensor(tensor); }
  };
  std::unique_ptr<TF_Tensor, Delete> tensor_;
};

// A kernel's view of one call.
class OpContext {
 public:
  explicit OpContext(TF_OpKernelContext* context) : context_(context) {}
  TF_OpKernelContext* get() const { return context_; }

  Tensor input(int index) const {
    TF_Tensor* tensor = nullptr;
    TF_GetInput(context_, index, &tensor, status_);
    status_.check();
    return Tensor(tensor);
  }

  Tensor output(int index, TF_DataType type, const std::vector<int64_t>& shape) const {
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    TF_Tensor* tensor = TF_AllocateOutput(context_, index, type, shape.data(), static_cast<int>(shape.size()),
                                          count * TF_DataTypeSize(type), status_);
    status_.check();
    return Tensor(tensor);
  }

  // Memory for the time of this call, on the device that the op runs on.
  // Whether the kernel was registered with this output in host memory.
  bool isHostOutput(int index) const {
    const bool host = TF_IsHostMemoryOutput(context_, index, status_);
    status_.check();
    return host;
  }

  Tensor temporary(int64_t bytes) const {
    TF_AllocatorAttributes attributes{};
    attributes.struct_size = TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE;
    TF_Tensor* tensor = TF_AllocateTemp(context_, TF_UINT8, &bytes, 1, &attributes, status_);
    status_.check();
    return Tensor(tensor);
  }

 private:
  TF_OpKernelContext* context_;
  Status status_;
};

// A kernel's view of its attributes.
class OpAttributes {
 public:
  explicit OpAttributes(TF_OpKernelConstruction* construction) : construction_(construction) {}

  int64_t integer(const char* name) const {
    int64_t value = 0;
    Status status;
    TF_OpKernelConstruction_GetAttrInt64(construction_, name, &value, status);
    status.check();
    return value;
  }

  bool boolean(const char* name) const {
    TF_Bool value = 0;
    Status status;
    TF_OpKernelConstruction_GetAttrBool(construction_, name, &value, status);
    status.check();
    return value != 0;
  }

  TF_DataType type(const char* name) const {
    TF_DataType value = TF_FLOAT;
    Status status;
    TF_OpKernelConstruction_GetAttrType(construction_, name, &value, status);
    status.check();
    return value;
  }

  std::string string(const char* name) const {
    int32_t listSize = 0, length = 0;
    Status status;
    TF_OpKernelConstruction_GetAttrSize(construction_, name, &listSize, &length, status);
    status.check();
    std::string value(length, '\0');
    TF_OpKernelConstruction_GetAttrString(construction_, name, value.data(), value.size(), status);
    status.check();
    return value;
  }

 private:
  TF_OpKernelConstruction* construction_;
};

enum class Device { kCpu, kGpu };

struct TypeConstraint {
  const char* attribute;
  TF_DataType type;
};

// Registers `Kernel` for an op: `Kernel(const OpAttributes&)` once for each node, `compute<kDevice>(context)` for each
// call. The outputs named in `hostOutputs` lie in host memory on every device.
template <class Kernel, Device kDevice>
class KernelRegistration {
 public:
  static void run(const char* op, const std::vector<TypeConstraint>& constraints,
                  const std::vector<const char*>& hostOutputs) {
    TF_KernelBuilder* builder =
        TF_NewKernelBuilder(op, kDevice == Device::kGpu ? "GPU" : "CPU", create, compute, destroy);
    Status status;
    for (const TypeConstraint& constraint : constraints) {
      TF_KernelBuilder_TypeConstraint(builder, constraint.attribute, constraint.type, status);
      status.check();
    }
    for (const char* output : hostOutputs) TF_KernelBuilder_HostMemory(builder, output);
    TF_RegisterKernelBuilder(op, builder, status);  // takes the builder
    status.check();
  }

 private:
  static void* create(TF_OpKernelConstruction* construction) {
    Status status;
    try {
      return new Kernel(OpAttributes(construction));
    } catch (const OpError& error) {
      TF_SetStatus(status, error.code, error.what());
    } catch (const std::exception& error) {
      TF_SetStatus(status, TF_INTERNAL, error.what());
    }
    TF_OpKernelConstruction_Failure(construction, status);
    return nullptr;
  }

  static void compute(void* kernel, TF_OpKernelContext* rawContext) {
    try {
      static_cast<const Kernel*>(kernel)->template compute<kDevice>(OpContext(rawContext));
    } catch (const OpError& error) {
      fail(rawContext, error.code, error.what());
    } catch (const std::exception& error) {
      fail(rawContext, TF_INTERNAL, error.what());
    }
  }

  static void fail(TF_OpKernelContext* context, TF_Code code, const char* message) {
    Status status;
    TF_SetStatus(status, code, message);
    TF_OpKernelContext_Failure(context, status);
  }

  static void destroy(void* kernel) { delete static_cast<Kernel*>(kernel); }
};

}  // namespace lm_head
