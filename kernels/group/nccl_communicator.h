// NCCL, found at run time: what is not installed is not missed before a group is opened.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace lm_head {

// One rank's end. Errors are std::runtime_error.
class NcclCommunicator {
 public:
  // Finds the library, or says where it was looked for.
  static void load();
  // What rank 0 makes and every rank needs.
  static std::string newId();

  // On the current device; returns when all ranks have called it.
  NcclCommunicator(const std::string& id, int rank, int worldSize);
  ~NcclCommunicator() { abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Enqueues on `stream`: every rank's block of so many bytes goes from its place in `blocks` to the same place in
  // those of all ranks.
  void allGather(void* blocks, size_t bytes, cudaStream_t stream);

  // What NCCL has found out on its own threads; empty: nothing.
  std::string problem() const;

  // Ends what runs on the GPU, and the communicator; never waits for other ranks. May be called again.
  void abort();

 private:
  int rank_;
  void* communicator_ = nullptr;
};

}  // namespace lm_head
