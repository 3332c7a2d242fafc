#include "parallel.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

namespace lm_head {
namespace {

// About the work that takes as long as waking a thread.
constexpr int64_t kOperationsPerThread = 1 << 19;
// Of a setting beyond reason.
constexpr int64_t kMostThreads = 1024;

// What TensorFlow's own pool goes by: its environment variable where that is above 0, else the cores.
int64_t mostThreads() {
  const char* setting = std::getenv("TF_NUM_INTRAOP_THREADS");
  char* end = nullptr;
  const int64_t wanted = setting == nullptr ? 0 : std::strtoll(setting, &end, 10);
  if (wanted > 0 && *end == '\0') return std::min<int64_t>(wanted, kMostThreads);
  return std::max(1u, std::thread::hardware_concurrency());
}

class WorkerPool {
 public:
  // Never destroyed: threads may still wait in it when the process ends.
  static WorkerPool& shared() {
    static WorkerPool* pool = new WorkerPool;
    return *pool;
  }

  // Runs task(0) here and task(1), ... task(tasks - 1) on pool threads; task must not throw. False when the pool is in
  // use.
  bool tryRun(int tasks, const std::function<void(int)>& task) {
    const std::unique_lock<std::mutex> use(inUse_, std::try_to_lock);
    if (!use.owns_lock()) return false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (threads_ < tasks - 1) start(++threads_);
      task_ = &task;
      tasks_ = tasks;
      unfinished_ = tasks - 1;
      ++generation_;
    }
    wake_.notify_all();
    task(0);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return unfinished_ == 0; });
    return true;
  }

 private:
  void start(int index) {
    const uint64_t seen = generation_;
    std::thread([this, index, seen] { serve(index, seen); }).detach();
  }

  void serve(int index, uint64_t seen) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      if (index >= tasks_) continue;
      const std::function<void(int)>* task = task_;
      lock.unlock();
      (*task)(index);
      lock.lock();
      if (--unfinished_ == 0) done_.notify_one();
    }
  }

  std::mutex inUse_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  int threads_ = 0;
  int tasks_ = 0;
  int unfinished_ = 0;
  uint64_t generation_ = 0;
  const std::function<void(int)>* task_ = nullptr;
};

}  // namespace

int threadsFor(int64_t operations) {
  // Asked once: the C library opens a file to tell the cores.
  static const int64_t most = mostThreads();
  return static_cast<int>(std::clamp<int64_t>(operations / kOperationsPerThread, 1, most));
}

void parallelFor(int threads, int64_t count, const std::function<void(int, int64_t, int64_t)>& body) {
  const int workers = static_cast<int>(std::clamp<int64_t>(count, 1, threads));
  if (workers == 1) return body(0, 0, count);
  std::mutex errorMutex;
  std::exception_ptr error;
  const auto task = [&](int worker) {
    try {
      body(worker, count * worker / workers, count * (worker + 1) / workers);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(errorMutex);
      error = std::current_exception();
    }
  };
  if (!WorkerPool::shared().tryRun(workers, task)) {
    for (int worker = 0; worker < workers; ++worker) task(worker);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace lm_head
