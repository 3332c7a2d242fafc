// The list of open groups, and what the addon asks of them.
#include "tensor_parallel_group.h"

#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "../tensorflow/tf_api.h"

#ifdef LM_HEAD_CUDA
#include "tensor_parallel_group_gpu.h"
#endif

namespace lm_head {
namespace {

// All groups of this process; a handle is a place in the list, counted from 1.
class Groups {
 public:
  struct Entry {
    std::string name;                            // of this process in the group
    std::shared_ptr<TensorParallelGroup> group;  // null once it is closed
  };

  // Never destroyed: groups that nobody has closed still have threads when the process ends.
  static Groups& shared() {
    static Groups* groups = new Groups;
    return *groups;
  }

  int64_t add(std::shared_ptr<TensorParallelGroup> group) {
    const std::string name = "rank " + std::to_string(group->rank()) + " of " + std::to_string(group->worldSize());
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.push_back({name, std::move(group)});
    return static_cast<int64_t>(entries_.size());
  }

  Entry find(int64_t handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (handle < 1 || handle > static_cast<int64_t>(entries_.size())) return {"this process", nullptr};
    return entries_[handle - 1];
  }

  void remove(int64_t handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_[handle - 1].group.reset();
  }

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

void checkOptions(const RendezvousOptions& options) {
  const auto number = [](int64_t value) { return std::to_string(value); };
  if (options.worldSize < 2)
    throw std::runtime_error("worldSize must be at least 2, but got " + number(options.worldSize));
  if (options.rank < 0 || options.rank >= options.worldSize) {
    throw std::runtime_error("rank must be 0 to " + number(options.worldSize - 1) + ", but got " +
                             number(options.rank));
  }
  if (options.timeout.count() < 1) {
    throw std::runtime_error("timeoutMs must be at least 1, but got " + number(options.timeout.count()));
  }
  if (options.port < 1 || options.port > 65535) {
    throw std::runtime_error("port must be 1 to 65535, but got " + number(options.port));
  }
}

std::shared_ptr<TensorParallelGroup> makeGroup(const RendezvousOptions& options) {
#ifdef LM_HEAD_CUDA
  return std::make_shared<GpuTensorParallelGroup>(options);
#else
  throw std::runtime_error("a group of " + std::to_string(options.worldSize) +
                           " ranks needs GPUs, but this library was built without CUDA kernels");
#endif
}

}  // namespace

int64_t openTensorParallelGroup(const RendezvousOptions& options) {
  checkOptions(options);
  return Groups::shared().add(makeGroup(options));
}

void failTensorParallelGroup(int64_t handle, const std::string& why) {
  const std::shared_ptr<TensorParallelGroup> group = Groups::shared().find(handle).group;
  if (group != nullptr) group->fail(why);
}

void closeTensorParallelGroup(int64_t handle) {
  const std::shared_ptr<TensorParallelGroup> group = Groups::shared().find(handle).group;
  if (group == nullptr) return;
  group->close();
  Groups::shared().remove(handle);
}

void abandonTensorParallelGroup(int64_t handle) {
  const std::shared_ptr<TensorParallelGroup> group = Groups::shared().find(handle).group;
  if (group != nullptr) group->abandon();
}

std::string tensorParallelGroupError(int64_t handle) {
  const std::shared_ptr<TensorParallelGroup> group = Groups::shared().find(handle).group;
  return group == nullptr ? "the group is closed" : group->error();
}

std::shared_ptr<TensorParallelGroup> tensorParallelGroup(int64_t handle, const std::string& op) {
  if (handle == 0) return nullptr;
  Groups::Entry entry = Groups::shared().find(handle);
  if (entry.group == nullptr)
    throw OpError(TF_ABORTED, op + " on " + entry.name + ": the tensor-parallel group is closed");
  return entry.group;
}

}  // namespace lm_head

// What the addon asks this library, by these names. Texts are cut to the size that is there.
extern "C" {

// Returns the group's handle, or 0 and a text.
__attribute__((visibility("default"))) int64_t lmHeadOpenTensorParallelGroup(int rank, int worldSize, const char* host,
                                                                             int port, int64_t timeoutMs, char* error,
                                                                             size_t errorSize) {
  try {
    lm_head::RendezvousOptions options;
    options.rank = rank;
    options.worldSize = worldSize;
    options.host = host;
    options.port = port;
    options.timeout = lm_head::Milliseconds(timeoutMs);
    return lm_head::openTensorParallelGroup(options);
  } catch (const std::exception& problem) {
    std::snprintf(error, errorSize, "%s", problem.what());
    return 0;
  }
}

__attribute__((visibility("default"))) void lmHeadFailTensorParallelGroup(int64_t handle, const char* why) {
  try {
    lm_head::failTensorParallelGroup(handle, why);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "tfjs-lm-head: %s\n", problem.what());
  }
}

__attribute__((visibility("default"))) void lmHeadAbandonTensorParallelGroup(int64_t handle) {
  try {
    lm_head::abandonTensorParallelGroup(handle);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "tfjs-lm-head: %s\n", problem.what());
  }
}

__attribute__((visibility("default"))) void lmHeadCloseTensorParallelGroup(int64_t handle, char* error,
                                                                           size_t errorSize) {
  try {
    lm_head::closeTensorParallelGroup(handle);
    std::snprintf(error, errorSize, "%s", "");
  } catch (const std::exception& problem) {
    std::snprintf(error, errorSize, "%s", problem.what());
  }
}

__attribute__((visibility("default"))) void lmHeadTensorParallelGroupError(int64_t handle, char* error,
                                                                           size_t errorSize) {
  try {
    std::snprintf(error, errorSize, "%s", lm_head::tensorParallelGroupError(handle).c_str());
  } catch (const std::exception& problem) {
    std::snprintf(error, errorSize, "%s", problem.what());
  }
}

}  // extern "C"
