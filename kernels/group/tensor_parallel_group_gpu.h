// A group whose ranks have a GPU each: data goes through NCCL on TensorFlow's stream, everything else through the
// control channel.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "../../cuda/common/gather_step.h"
#include "control_channel.h"
#include "nccl_communicator.h"
#include "tensor_parallel_group.h"

namespace lm_head {

class GpuTensorParallelGroup : public TensorParallelGroup {
 public:
  // Returns when all ranks are there and have gathered for the first time.
  explicit GpuTensorParallelGroup(RendezvousOptions options);
  ~GpuTensorParallelGroup() override { close(); }

  std::string error() const override { return channel_->error(); }
  void fail(const std::string& why) override { channel_->fail(why); }
  void close() override;
  void abandon() override;

  // Enqueues on `stream`: every rank's block of so many bytes goes from its place in `blocks` to the same place in
  // those of all ranks. The next kernel on the stream uses them and must be given the step. All ranks must agree on op,
  // `details` and bytes, and hold different ids.
  // @throws OpError that names op and rank when the group has failed
  GatherStep allGather(const std::string& op, const std::string& details, const IdRange& ids, void* blocks,
                       int64_t bytes, cudaStream_t stream);

 private:
  // Host memory that the GPU reaches: the words of GatherStep.
  struct Words {
    int failed;
    int64_t done;
  };

  void openCommunicator();
  void gatherHello();
  void waitForRoom(int64_t step) const;
  template <class IsReady>
  void waitFor(IsReady isReady, const char* otherwise) const;
  int64_t completedStep() const;
  std::string problem();
  void onEnd(bool pending);
  void abortCommunicator();

  const Milliseconds timeout_;
  int device_ = 0;
  Words* words_ = nullptr;
  unsigned char* hello_ = nullptr;  // such memory too, a block for each rank
  std::mutex stepping_;             // one step after the other
  // Who calls the communicator. Timed, for a call can hang in a full launch queue until the communicator is aborted.
  std::timed_mutex communicating_;
  std::unique_ptr<NcclCommunicator> communicator_;  // null before it is there and after it was aborted
  std::unique_ptr<ControlChannel> channel_;
};

}  // namespace lm_head
