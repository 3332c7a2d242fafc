// Outputs in host memory of a kernel that computes on the GPU: one block of device memory, one copy, one wait.
#pragma once

#include <cstdint>
#include <vector>

#include "tf_api.h"

namespace lm_head {

class HostResults {
 public:
  // `outputs` lie in host memory and outlive this; a tensor that is not there takes no room.
  HostResults(const OpContext& context, const std::vector<const Tensor*>& outputs);

  // Device memory for an output, by its number in `outputs`; aligned for vector stores.
  template <class T>
  T* data(size_t output) const {
    return reinterpret_cast<T*>(block_.data<char>() + parts_[output].offset);
  }

  // Fills the outputs, once all that was enqueued on the op's stream is done.
  // @throws OpError that names the op where the GPU reports an error
  void bringHome(const OpContext& context, const char* op) const;

 private:
  struct Part {
    char* host;
    int64_t offset;
    int64_t bytes;
  };

  std::vector<Part> parts_;
  int64_t bytes_ = 0;
  Tensor block_{nullptr};
};

}  // namespace lm_head
