#include "tensor_parallel_group_gpu.h"

#include <unistd.h>

#include <atomic>
#include <future>
#include <new>
#include <stdexcept>
#include <thread>

#include "../tensorflow/stream.h"

namespace lm_head {
namespace {

// Steps that may be under way at once. Few enough that a lost rank cannot let the launch queue run full.
constexpr int64_t kMostPending = 64;
constexpr int64_t kHelloBytes = 16;
// How much longer a rank waits than the channel takes to find out which rank is to blame.
constexpr Milliseconds kGrace(3000);

void check(const char* call, cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

// TensorFlow.js uses the last one of a process.
int lastDevice() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    throw std::runtime_error("a group of several ranks needs an NVIDIA GPU in each, and this process sees none");
  }
  return count - 1;
}

// The same text for the same GPU, from whichever process.
std::string deviceName(int device) {
  char host[256] = {}, bus[32] = {};
  gethostname(host, sizeof(host) - 1);
  check("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(bus, sizeof(bus), device));
  return std::string(host) + " " + bus;
}

// For what has no time limit of its own, such as NCCL's start and end: it is left behind where it does not return.
template <class Work>
auto onOwnThread(Work work) {
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

}  // namespace

GpuTensorParallelGroup::GpuTensorParallelGroup(RendezvousOptions options)
    : TensorParallelGroup(options.rank, options.worldSize), timeout_(options.timeout), device_(lastDevice()) {
  NcclCommunicator::load();
  check("cudaSetDevice", cudaSetDevice(device_));
  // Never freed: a kernel that was enqueued before the group ended may still look at them.
  void* memory = nullptr;
  check("cudaHostAlloc", cudaHostAlloc(&memory, sizeof(Words) + kHelloBytes * (worldSize() + 1),
                                       cudaHostAllocPortable | cudaHostAllocMapped));
  words_ = new (memory) Words{};
  hello_ = static_cast<unsigned char*>(memory) + kHelloBytes;
  static_assert(sizeof(Words) <= kHelloBytes, "hello_ lies behind the words, 16-byte aligned");
  options.device = deviceName(device_);
  if (rank() == 0) options.greeting = NcclCommunicator::newId();
  ControlHooks hooks;
  hooks.completedStep = [this] { return completedStep(); };
  hooks.problem = [this] { return problem(); };
  hooks.ended = [this](bool pending) { onEnd(pending); };
  channel_ = std::make_unique<ControlChannel>(options, std::move(hooks));
  try {
    openCommunicator();
    gatherHello();
  } catch (const std::exception& error) {
    channel_->fail("rank " + std::to_string(rank()) + " could not open the group: " + error.what());
    const std::string why = channel_->error();
    close();
    throw std::runtime_error(why);
  }
}

void GpuTensorParallelGroup::close() {
  channel_->close();
  abortCommunicator();  // one that came about after the end
}

void GpuTensorParallelGroup::abandon() {
  channel_->abandon();
  abortCommunicator();
}

GatherStep GpuTensorParallelGroup::allGather(const std::string& op, const std::string& details, const IdRange& ids,
                                             void* blocks, int64_t bytes, cudaStream_t stream) {
  try {
    const std::lock_guard<std::mutex> lock(stepping_);
    int device = 0;
    check("cudaGetDevice", cudaGetDevice(&device));
    if (device != device_) {
      throw std::runtime_error("the group is open on GPU " + std::to_string(device_) + ", but the op runs on GPU " +
                               std::to_string(device) + "; show one GPU to each process with CUDA_VISIBLE_DEVICES");
    }
    const int64_t step =
        channel_->beginStep({op + " with " + details + ", " + std::to_string(bytes) + " bytes a rank", ids});
    waitForRoom(step);
    const std::lock_guard<std::timed_mutex> communicating(communicating_);
    if (communicator_ == nullptr) throw std::runtime_error(channel_->error());
    communicator_->allGather(blocks, bytes, stream);
    return {&words_->failed, &words_->done, step};
  } catch (const std::runtime_error& error) {
    channel_->fail("rank " + std::to_string(rank()) + ": " + error.what());  // where that is not why it throws
    throw OpError(TF_ABORTED, op + " on rank " + std::to_string(rank()) + " of " + std::to_string(worldSize()) +
                                  ": the tensor-parallel group has failed: " + error.what());
  }
}

void GpuTensorParallelGroup::openCommunicator() {
  std::future<std::unique_ptr<NcclCommunicator>> opening =
      onOwnThread([device = device_, id = channel_->greeting(), rank = rank(), worldSize = worldSize()] {
        check("cudaSetDevice", cudaSetDevice(device));
        return std::make_unique<NcclCommunicator>(id, rank, worldSize);
      });
  waitFor([&] { return opening.wait_for(Milliseconds(20)) == std::future_status::ready; }, "NCCL did not start");
  const std::lock_guard<std::timed_mutex> communicating(communicating_);
  communicator_ = opening.get();
}

// The first gather, which makes NCCL connect the ranks: no op has to wait for that, nor to find out that it fails.
void GpuTensorParallelGroup::gatherHello() {
  const int64_t step = channel_->beginStep({"opening the group", IdRange{}});
  cudaStream_t stream = nullptr;
  check("cudaStreamCreate", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::unique_ptr<CUstream_st, cudaError_t (*)(cudaStream_t)> owner(stream, cudaStreamDestroy);
  hello_[rank() * kHelloBytes] = static_cast<unsigned char>(rank() + 1);
  {
    const std::lock_guard<std::timed_mutex> communicating(communicating_);
    if (communicator_ == nullptr) throw std::runtime_error(channel_->error());
    communicator_->allGather(hello_, kHelloBytes, stream);
  }
  const auto hasGathered = [&] {
    if (cudaStreamQuery(stream) != cudaErrorNotReady) return true;
    std::this_thread::sleep_for(Milliseconds(1));
    return false;
  };
  waitFor(hasGathered, "NCCL did not gather");
  check("the first gather", cudaStreamSynchronize(stream));
  for (int other = 0; other < worldSize(); ++other) {
    if (hello_[other * kHelloBytes] != static_cast<unsigned char>(other + 1)) {
      throw std::runtime_error("NCCL gathered wrong data from rank " + std::to_string(other));
    }
  }
  *static_cast<volatile int64_t*>(&words_->done) = step;
}

void GpuTensorParallelGroup::waitForRoom(int64_t step) const {
  const auto hasRoom = [&] {
    if (completedStep() + kMostPending >= step) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    return false;
  };
  waitFor(hasRoom, "the steps before did not end");
}

// Asks again and again; `isReady` waits a little itself.
template <class IsReady>
void GpuTensorParallelGroup::waitFor(IsReady isReady, const char* otherwise) const {
  const Clock::time_point deadline = Clock::now() + timeout_ + kGrace;
  while (!isReady()) {
    const std::string lost = channel_->error();
    if (!lost.empty()) throw std::runtime_error(lost);
    if (Clock::now() >= deadline) {
      throw std::runtime_error(std::string(otherwise) + " within " + std::to_string(timeout_.count()) + " ms");
    }
  }
}

int64_t GpuTensorParallelGroup::completedStep() const { return *static_cast<const volatile int64_t*>(&words_->done); }

std::string GpuTensorParallelGroup::problem() {
  const std::unique_lock<std::timed_mutex> communicating(communicating_, std::try_to_lock);
  return communicating.owns_lock() && communicator_ != nullptr ? communicator_->problem() : "";
}

// First the word that tells the kernels behind a gather, then the abort that lets them run.
void GpuTensorParallelGroup::onEnd(bool pending) {
  if (pending) *static_cast<volatile int*>(&words_->failed) = 1;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  abortCommunicator();
}

void GpuTensorParallelGroup::abortCommunicator() {
  // A call that does not end is waiting for the GPU, and the GPU for the abort.
  const std::unique_lock<std::timed_mutex> communicating(communicating_, std::chrono::seconds(2));
  if (communicator_ == nullptr) return;
  const std::future<void> aborted = onOwnThread([device = device_, communicator = std::move(communicator_)] {
    cudaSetDevice(device);
    communicator->abort();
  });
  aborted.wait_for(std::chrono::seconds(10));
}

}  // namespace lm_head
