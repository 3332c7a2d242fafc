#include <algorithm>
#include <cstring>
#include <mutex>

#include "host_results.h"
#include "stream.h"

namespace lm_head {
namespace {

constexpr int64_t kAlignment = 16;
// Results of some thousand rows; more than that takes the time of a copy anyway.
constexpr int64_t kStagingBytes = 1 << 20;

// Pinned host memory, which the GPU writes to without help of the CPU. There are as many as kernels have been at work
// at once; they are kept for the next ones, and never freed, for CUDA may end before the globals of this library do.
class Staging {
 public:
  explicit Staging(const char* op) {
    {
      const std::lock_guard<std::mutex> lock(pool().mutex);
      if (!pool().idle.empty()) {
        memory_ = pool().idle.back();
        pool().idle.pop_back();
        return;
      }
    }
    const cudaError_t error = cudaHostAlloc(&memory_, kStagingBytes, cudaHostAllocPortable);
    if (error != cudaSuccess) cudaGetLastError();  // so that no later launch is taken to have failed
    checkCuda(error, op);
  }
  ~Staging() {
    const std::lock_guard<std::mutex> lock(pool().mutex);
    pool().idle.push_back(memory_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  char* data() const { return static_cast<char*>(memory_); }

 private:
  struct Pool {
    std::mutex mutex;
    std::vector<void*> idle;
  };
  static Pool& pool() {
    static Pool& pool = *new Pool;
    return pool;
  }

  void* memory_ = nullptr;
};

}  // namespace

HostResults::HostResults(const OpContext& context, const std::vector<const Tensor*>& outputs) {
  for (const Tensor* output : outputs) {
    const int64_t bytes = output->bytes();
    parts_.push_back({bytes == 0 ? nullptr : output->data<char>(), bytes_, bytes});
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  block_ = context.temporary(std::max(bytes_, kAlignment));
}

void HostResults::bringHome(const OpContext& context, const char* op) const {
  const cudaStream_t stream = streamOf(context);
  const char* block = block_.data<char>();
  if (bytes_ > kStagingBytes) {
    for (const Part& part : parts_) {
      if (part.bytes == 0) continue;
      checkCuda(cudaMemcpyAsync(part.host, block + part.offset, part.bytes, cudaMemcpyDeviceToHost, stream), op);
    }
    return checkCuda(cudaStreamSynchronize(stream), op);
  }
  const Staging staging(op);
  checkCuda(cudaMemcpyAsync(staging.data(), block, bytes_, cudaMemcpyDeviceToHost, stream), op);
  checkCuda(cudaStreamSynchronize(stream), op);
  for (const Part& part : parts_) {
    if (part.bytes > 0) std::memcpy(part.host, staging.data() + part.offset, part.bytes);
  }
}

}  // namespace lm_head
