#include "rendezvous.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "control_hub.h"

namespace lm_head {
namespace {

// Begins a hello, and the device follows. Tells apart who happens to find the port, such as another program's
// clients.
constexpr std::string_view kLanguage = "tfjs-lm-head group 1\n";

// How much longer a rank waits than it has told rank 0, whose word on who is missing then comes in time.
constexpr Milliseconds kGrace(1000);

std::string timeText(Milliseconds time) { return std::to_string(time.count()) + " ms"; }

// Rank 0's side.
class Host {
 public:
  explicit Host(const RendezvousOptions& options)
      : options_(options), deadline_(Clock::now() + options.timeout), devices_(options.worldSize) {
    result_.peers.resize(options.worldSize);
    result_.greeting = options.greeting;
    devices_[0] = options.device;
  }

  Rendezvous run() {
    const Descriptor listener = listenAt(options_.host, options_.port);
    while (!missing().empty()) {
      const Clock::time_point now = Clock::now();
      if (now >= deadline_) {
        refuse(ranksText(missing()) + " of " + std::to_string(options_.worldSize) + " did not come to " +
               addressText(options_.host, options_.port) + " within " + timeText(options_.timeout));
      }
      std::vector<int> descriptors = {listener.get()};
      for (const Connection& pending : pendingConnections_) descriptors.push_back(pending.descriptor());
      for (const auto& peer : result_.peers) {
        if (peer != nullptr) descriptors.push_back(peer->descriptor());
      }
      waitForAny(descriptors, std::chrono::duration_cast<Milliseconds>(deadline_ - now) + Milliseconds(1));
      while (std::optional<Connection> came = Connection::accept(listener))
        pendingConnections_.push_back(std::move(*came));
      hearPendingConnections();
      for (size_t rank = 1; rank < result_.peers.size(); ++rank) {
        if (result_.peers[rank] == nullptr) continue;
        result_.peers[rank]->receive();
        if (!result_.peers[rank]->isOpen()) {
          refuse("rank " + std::to_string(rank) + " died while the group waited for " + ranksText(missing()));
        }
      }
    }
    toAll({MessageType::kWelcome, 0, 0, 0, options_.greeting});
    return std::move(result_);
  }

 private:
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 1; rank < options_.worldSize; ++rank) {
      if (result_.peers[rank] == nullptr) ranks.push_back(rank);
    }
    return ranks;
  }

  void hearPendingConnections() {
    for (size_t i = 0; i < pendingConnections_.size();) {
      const std::optional<Message> hello = pendingConnections_[i].wait(Clock::now());
      if (!hello && pendingConnections_[i].isOpen()) {
        ++i;
        continue;
      }
      Connection pending = std::move(pendingConnections_[i]);
      pendingConnections_.erase(pendingConnections_.begin() + i);
      if (hello) admit(std::move(pending), *hello);
    }
  }

  void admit(Connection pending, const Message& hello) {
    if (hello.type != MessageType::kHello || hello.text.compare(0, kLanguage.size(), kLanguage) != 0) return;
    const std::string device = hello.text.substr(kLanguage.size());
    // From here on it is one of us, and hears why it does not fit.
    const auto refuseBoth = [&](const std::string& why) {
      pending.send({MessageType::kFail, 0, 0, 0, why});
      refuse(why);
    };
    const std::string name = "rank " + std::to_string(hello.rank);
    if (hello.step != options_.worldSize) {
      refuseBoth(name + " was given a world size of " + std::to_string(hello.step) + ", but rank 0 one of " +
                 std::to_string(options_.worldSize));
    }
    if (hello.rank < 1 || hello.rank >= options_.worldSize || result_.peers[hello.rank] != nullptr) {
      refuseBoth("two processes say that they are " + name);
    }
    for (int other = 0; other < options_.worldSize; ++other) {
      if (device.empty() || devices_[other] != device) continue;
      refuseBoth("ranks " + std::to_string(other) + " and " + std::to_string(hello.rank) + " use the same GPU (" +
                 device + "); give each process its own with CUDA_VISIBLE_DEVICES");
    }
    devices_[hello.rank] = device;
    result_.peers[hello.rank] = std::make_unique<Connection>(std::move(pending));
    deadline_ = std::min(deadline_, Clock::now() + Milliseconds(hello.completed));
  }

  void toAll(const Message& message) {
    for (const auto& peer : result_.peers) {
      if (peer != nullptr) peer->send(message);
    }
  }

  [[noreturn]] void refuse(const std::string& why) {
    const Message failure{MessageType::kFail, 0, 0, 0, why};
    toAll(failure);
    // Those too who have come and not yet been heard.
    for (Connection& pending : pendingConnections_) {
      pending.receive();
      pending.send(failure);
    }
    throw std::runtime_error(why);
  }

  const RendezvousOptions& options_;
  Clock::time_point deadline_;  // of the one that waits shortest
  std::vector<std::string> devices_;
  std::vector<Connection> pendingConnections_;
  Rendezvous result_;
};

Rendezvous joinRankZero(const RendezvousOptions& options) {
  const Clock::time_point deadline = Clock::now() + options.timeout;
  const std::string address = addressText(options.host, options.port);
  std::unique_ptr<Connection> toHost;
  try {
    toHost = std::make_unique<Connection>(Connection::open(options.host, options.port, deadline));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("rank 0 did not come to " + address + " within " + timeText(options.timeout) + " (" +
                             error.what() + ")");
  }
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
  toHost->send({MessageType::kHello, options.rank, options.worldSize, std::max<int64_t>(left.count(), 0),
                std::string(kLanguage) + options.device});
  const std::optional<Message> answer = toHost->wait(deadline + kGrace);
  if (answer && answer->type == MessageType::kFail) throw std::runtime_error(answer->text);
  if (!answer || answer->type != MessageType::kWelcome) {
    throw std::runtime_error(toHost->isOpen()
                                 ? "rank 0 did not answer at " + address + " within " + timeText(options.timeout)
                                 : "rank 0 died, or what listens at " + address + " is another program");
  }
  Rendezvous result;
  result.peers.push_back(std::move(toHost));
  result.greeting = answer->text;
  return result;
}

}  // namespace

Rendezvous meetRanks(const RendezvousOptions& options) {
  return options.rank == 0 ? Host(options).run() : joinRankZero(options);
}

}  // namespace lm_head
