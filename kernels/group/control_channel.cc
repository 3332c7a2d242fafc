#include "control_channel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace lm_head {
namespace {

// How often a rank says how far it is, and the same while another rank waits for that.
constexpr Milliseconds kPulse(200), kRequestedPulse(5);
// How much longer a rank waits for rank 0's decision than rank 0 takes to make it.
constexpr Milliseconds kGrace(2000);

// The channels of this process, for its exit.
class OpenChannels {
 public:
  // Never destroyed: other threads may still open and close channels while the process exits.
  static OpenChannels& shared() {
    static auto* channels = new OpenChannels;
    return *channels;
  }

  void add(ControlChannel* channel) {
    const std::lock_guard<std::mutex> lock(mutex_);
    channels_.insert(channel);
  }

  void remove(ControlChannel* channel) {
    const std::lock_guard<std::mutex> lock(mutex_);
    channels_.erase(channel);
  }

 private:
  // What exits runs backwards: this comes before the end of all that was there before the first channel, CUDA too.
  OpenChannels() {
    std::atexit([] { shared().abandonAll(); });
  }

  void abandonAll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (ControlChannel* channel : channels_) channel->abandon();
  }

  std::mutex mutex_;
  std::set<ControlChannel*> channels_;
};

}  // namespace

ControlChannel::ControlChannel(const RendezvousOptions& options, ControlHooks hooks)
    : rank_(options.rank), timeout_(options.timeout), hooks_(std::move(hooks)) {
  Rendezvous rendezvous = meetRanks(options);
  greeting_ = std::move(rendezvous.greeting);
  peers_ = std::move(rendezvous.peers);
  if (rank_ == 0) hub_ = std::make_unique<ControlHub>(options.worldSize, timeout_);
  wakeUp_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  lastAdvance_ = Clock::now();
  lastHeard_.assign(peers_.size(), lastAdvance_);
  watcher_ = std::thread([this] { watch(); });
  OpenChannels::shared().add(this);
}

ControlChannel::~ControlChannel() {
  OpenChannels::shared().remove(this);
  close();
}

int64_t ControlChannel::beginStep(const Call& call) {
  std::unique_lock<std::mutex> lock(mutex_);
  throwIfFailed();
  const int64_t step = begun_ + 1;
  const bool changed = call.text != call_.text || call.ids.begin != call_.ids.begin || call.ids.end != call_.ids.end;
  if (changed) {
    callBefore_ = std::move(call_);
    call_ = call;
    callSince_ = step;
  }
  if (changed || asked_.count(step) != 0) {
    toHub(about(MessageType::kVote, step));
    const auto decided = [&] { return agreed_ >= step || !error_.empty(); };
    if (!changed_.wait_for(lock, timeout_ + kGrace, decided)) setError("rank 0 does not answer");
    throwIfFailed();
    asked_.erase(asked_.begin(), asked_.upper_bound(step));
  }
  begun_ = step;
  return step;
}

std::string ControlChannel::error() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

void ControlChannel::fail(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!error_.empty()) return;
  toHub({MessageType::kFail, rank_, 0, 0, text});
  setError(text);
}

void ControlChannel::abandon() {
  fail("rank " + std::to_string(rank_) + " has ended without closing the group");
  close();
}

void ControlChannel::close() {
  const std::lock_guard<std::mutex> closing(closing_);
  if (!watcher_.joinable()) return;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (error_.empty()) {
      toHub({MessageType::kLeave, rank_, begun_, 0, ""});
      wake();
      changed_.wait_for(lock, timeout_, [this] { return mayLeave_ || !error_.empty(); });
    }
    setError("this rank has closed the group");
    stopping_ = true;
  }
  wake();
  watcher_.join();
  const std::lock_guard<std::mutex> lock(mutex_);
  // What is closed with unread messages can take back what it has sent.
  for (const auto& peer : peers_) {
    if (peer != nullptr) peer->receive();
  }
  peers_.clear();
}

void ControlChannel::watch() {
  for (bool told = false;;) {
    std::vector<int> descriptors = {wakeUp_.get()};
    for (const auto& peer : peers_) {
      if (peer != nullptr && peer->isOpen()) descriptors.push_back(peer->descriptor());
    }
    bool ended = false, pending = false, stopping = false;
    Milliseconds pulse = kPulse;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping = stopping_;
      ended = !error_.empty();
      pending = hooks_.completedStep() < begun_;
      if (progressRequested_) pulse = kRequestedPulse;
    }
    if (ended && !told) {
      told = true;
      hooks_.ended(pending);
    }
    if (stopping) return;
    waitForAny(descriptors, pulse);
    uint64_t wakes = 0;
    while (read(wakeUp_.get(), &wakes, sizeof(wakes)) > 0) {
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    const Clock::time_point now = Clock::now();
    receiveAll(now);
    report(now);
    if (hub_ != nullptr) {
      hub_->look(now);
      sendOutbox();
    }
  }
}

void ControlChannel::wake() {
  const uint64_t one = 1;
  // It can only fail when the watcher has not even seen the last wake-up.
  [[maybe_unused]] const ssize_t written = write(wakeUp_.get(), &one, sizeof(one));
}

void ControlChannel::throwIfFailed() const {
  if (!error_.empty()) throw std::runtime_error(error_);
}

void ControlChannel::receiveAll(Clock::time_point now) {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    Connection* peer = peers_[rank].get();
    if (peer == nullptr || !peer->isOpen()) continue;
    const std::vector<Message> messages = peer->receive();
    for (const Message& message : messages) {
      if (hub_ != nullptr) {
        hub_->receive(static_cast<int>(rank), message, now);
      } else {
        deliver(message);
      }
    }
    const auto silence = std::chrono::duration_cast<Milliseconds>(now - lastHeard_[rank]);
    if (!messages.empty()) {
      lastHeard_[rank] = now;
    } else if (silence > std::max(timeout_, 5 * kPulse)) {
      lose(static_cast<int>(rank), "has been silent for " + std::to_string(silence.count()) + " ms");
    }
    if (!peer->isOpen()) lose(static_cast<int>(rank), "died: its connection was closed");
  }
}

void ControlChannel::report(Clock::time_point now) {
  if (now - lastReport_ < (progressRequested_ ? kRequestedPulse : kPulse)) return;
  lastReport_ = now;
  const int64_t completed = hooks_.completedStep();
  const Message progress{MessageType::kProgress, rank_, begun_, completed, ""};
  toHub(progress);
  if (hub_ != nullptr) {
    for (const auto& peer : peers_) {
      if (peer != nullptr) peer->send(progress);
    }
  }
  const std::string problem = error_.empty() ? hooks_.problem() : "";
  if (!problem.empty()) {
    toHub({MessageType::kFail, rank_, 0, 0, "rank " + std::to_string(rank_) + ": " + problem});
  } else if (completed >= begun_ || completed != lastCompleted_) {
    lastAdvance_ = now;
    lastCompleted_ = completed;
  } else if (now - lastAdvance_ > timeout_) {
    lastAdvance_ = now;
    toHub(about(MessageType::kStuck, completed + 1));
  }
}

void ControlChannel::lose(int rank, const std::string& how) {
  if (hub_ != nullptr) {
    hub_->lose(rank, how);
  } else {
    setError("rank 0 " + how);
  }
}

void ControlChannel::toHub(const Message& message) {
  if (peers_.empty()) return;  // closed
  if (hub_ == nullptr) return peers_[0]->send(message);
  hub_->receive(0, message, Clock::now());
  sendOutbox();
}

void ControlChannel::sendOutbox() {
  std::deque<ControlHub::Outgoing>& outbox = hub_->outbox();
  while (!outbox.empty()) {
    const ControlHub::Outgoing next = std::move(outbox.front());
    outbox.pop_front();
    if (next.rank == 0) {
      deliver(next.message);
    } else {
      peers_[next.rank]->send(next.message);
    }
  }
}

// What rank 0 has decided.
void ControlChannel::deliver(const Message& message) {
  switch (message.type) {
    case MessageType::kAsk:
      if (message.step > begun_) {
        asked_.insert(message.step);
      } else {
        toHub(about(MessageType::kVote, message.step));
      }
      return;
    case MessageType::kAgreed:
      agreed_ = std::max(agreed_, message.step);
      changed_.notify_all();
      return;
    case MessageType::kMayLeave:
      mayLeave_ = true;
      changed_.notify_all();
      return;
    case MessageType::kRequestProgress:
      progressRequested_ = true;
      return;
    case MessageType::kFail:
      return setError(message.text);
    default:
      return;  // a pulse
  }
}

Message ControlChannel::about(MessageType type, int64_t step) const {
  const Call& call = step >= callSince_ ? call_ : callBefore_;
  return {type, rank_, step, 0, call.text, call.ids};
}

void ControlChannel::setError(const std::string& text) {
  if (!error_.empty()) return;
  error_ = text;
  changed_.notify_all();
  wake();
}

}  // namespace lm_head
