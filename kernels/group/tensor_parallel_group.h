// Processes that answer one op together, each with its shard of the vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rendezvous.h"

namespace lm_head {

// Two ranks or more; how they exchange data is in tensor_parallel_group_gpu.h.
class TensorParallelGroup {
 public:
  TensorParallelGroup(int rank, int worldSize) : rank_(rank), worldSize_(worldSize) {}
  virtual ~TensorParallelGroup() = default;
  TensorParallelGroup(const TensorParallelGroup&) = delete;
  TensorParallelGroup& operator=(const TensorParallelGroup&) = delete;

  int rank() const { return rank_; }
  int worldSize() const { return worldSize_; }

  // Why no op can use the group any more; empty while it is well.
  virtual std::string error() const = 0;
  // Makes it fail on all ranks, if it has not failed yet.
  virtual void fail(const std::string& why) = 0;
  // Waits until the other ranks have the data of this rank's last step, if they live, and leaves. May be called again.
  virtual void close() = 0;
  // Leaves at once, which fails the group on the other ranks. Harmless when it is closed.
  virtual void abandon() = 0;

 private:
  const int rank_;
  const int worldSize_;
};

// The open groups of this process, by handle, from 1 on. In options, rank, world size, address and timeout are the
// caller's, and there are at least two ranks: one needs no group.
// @throws std::runtime_error that says what is missing
int64_t openTensorParallelGroup(const RendezvousOptions& options);
// All three are harmless for a handle that is closed.
void failTensorParallelGroup(int64_t handle, const std::string& why);
void closeTensorParallelGroup(int64_t handle);
void abandonTensorParallelGroup(int64_t handle);
std::string tensorParallelGroupError(int64_t handle);

// The group that an op was given; null for handle 0.
// @throws OpError that names the op when the group is closed
std::shared_ptr<TensorParallelGroup> tensorParallelGroup(int64_t handle, const std::string& op);

}  // namespace lm_head
