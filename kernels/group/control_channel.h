// The TCP channel beside a group's GPU traffic: ranks agree on what they are about to do, and learn at once which rank
// was lost. The others hold one connection to rank 0 for as long as the group lives.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "control_hub.h"
#include "rendezvous.h"

namespace lm_head {

struct ControlHooks {
  // The last step whose data is here.
  std::function<int64_t()> completedStep;
  // What is wrong with the data's way, asked now and then; empty: nothing.
  std::function<std::string()> problem;
  // The group has ended, well or not, and no step is begun any more; `pending`: there were steps without their data.
  // Called once, on the channel's own thread, before close or abandon returns.
  std::function<void(bool pending)> ended;
};

// What a rank does in a step.
struct Call {
  std::string text;  // the same on all ranks
  IdRange ids;       // of this rank's shard; no other may hold one of them
};

class ControlChannel {
 public:
  // Returns when all ranks are there; options.timeout holds for a step, too, and for a sign of life.
  // @throws std::runtime_error as meetRanks does
  ControlChannel(const RendezvousOptions& options, ControlHooks hooks);
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  const std::string& greeting() const { return greeting_; }

  // Begins the next step and returns its number, from 1 on. As long as a rank does the same again and again, this sends
  // nothing; after a change it waits until all ranks have said what they do, and it fits.
  // @throws std::runtime_error when the group has failed
  int64_t beginStep(const Call& call);

  // Why the group has failed; empty while it has not.
  std::string error() const;
  // Makes the group fail, on all ranks, if it has not failed yet.
  void fail(const std::string& text);

  // Waits until the others have the data of this rank's last step, then leaves. May be called again.
  void close();
  // Leaves at once, and the group fails on all other ranks. What is open when the process exits does so by itself,
  // while CUDA still works.
  void abandon();

 private:
  void watch();
  void wake();

  // With the mutex held.
  void throwIfFailed() const;
  void receiveAll(Clock::time_point now);
  void report(Clock::time_point now);
  void lose(int rank, const std::string& how);
  void toHub(const Message& message);
  void sendOutbox();
  void deliver(const Message& message);
  void setError(const std::string& text);
  // What this rank does in a step, one of the last two kinds.
  Message about(MessageType type, int64_t step) const;

  const int rank_;
  const Milliseconds timeout_;
  const ControlHooks hooks_;
  std::string greeting_;
  std::vector<std::unique_ptr<Connection>> peers_;  // as in Rendezvous; only the watcher receives
  std::unique_ptr<ControlHub> hub_;                 // of rank 0

  std::mutex closing_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string error_;
  int64_t begun_ = 0;
  Call call_, callBefore_;
  int64_t callSince_ = 0;    // the first step with call_
  std::set<int64_t> asked_;  // steps in which every rank has to vote
  int64_t agreed_ = 0;
  bool mayLeave_ = false;
  bool progressRequested_ = false;
  bool stopping_ = false;

  std::vector<Clock::time_point> lastHeard_;  // by peer
  Clock::time_point lastReport_, lastAdvance_;
  int64_t lastCompleted_ = 0;

  Descriptor wakeUp_;  // an eventfd: ends the watcher's sleep
  std::thread watcher_;
};

}  // namespace lm_head
