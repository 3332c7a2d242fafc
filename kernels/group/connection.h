// TCP between the ranks of a group: whole messages, deadlines, and a word for what went wrong.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lm_head {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

enum class MessageType : int32_t {
  // Before the group is complete.
  kHello,    // rank; step: its world size; completed: milliseconds that it will wait; text: who it is
  kWelcome,  // text: what rank 0 gives to all
  // From a rank to rank 0.
  kProgress,  // step: the last one begun; completed: the last one whose data is there. Rank 0 sends it too, as a pulse.
  kVote,      // step, text: what this rank does in it; ids: those of its shard
  kStuck,     // step, text: it does not complete
  kLeave,     // step: the last one; when the others have its data, this rank may go
  // From rank 0 to a rank.
  kAsk,              // step: vote when you come to it
  kAgreed,           // step: all do the same
  kMayLeave,         //
  kRequestProgress,  // somebody waits for your progress
  // Both ways.
  kFail,  // text: why the group has failed
};

// Ids of a vocabulary, from `begin` up to, but not including, `end`.
struct IdRange {
  int64_t begin = 0;
  int64_t end = 0;
};

struct Message {
  MessageType type{};
  int32_t rank = 0;
  int64_t step = 0;
  int64_t completed = 0;
  std::string text;
  IdRange ids{};
};

// A file descriptor with an owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  void close();

 private:
  int fd_;
};

// The address as people write it: an IPv6 host in brackets.
std::string addressText(const std::string& host, int port);

// Waits for connections of other ranks.
// @throws std::runtime_error when the address cannot be taken
Descriptor listenAt(const std::string& host, int port);

class Connection {
 public:
  // Tries until somebody listens there.
  // @throws std::runtime_error when nobody does by the deadline
  static Connection open(const std::string& host, int port, Clock::time_point deadline);
  // Takes one connection that waits at a listening descriptor, if one does.
  static std::optional<Connection> accept(const Descriptor& listener);

  int descriptor() const { return socket_.get(); }

  // Never waits: where the message cannot be sent at once, the other side does not read any more, and the connection
  // ends.
  void send(const Message& message);

  // Messages that have arrived; never waits. `isOpen` turns false when the other side is gone or talks otherwise.
  std::vector<Message> receive();
  bool isOpen() const { return open_; }

  // The next message, if one comes in time.
  std::optional<Message> wait(Clock::time_point deadline);

 private:
  explicit Connection(Descriptor socket);

  Descriptor socket_;
  std::string arrived_;
  std::vector<Message> waiting_;  // received, not yet asked for
  bool open_ = true;
};

// Waits until one of the descriptors can be read, or for so long.
void waitForAny(const std::vector<int>& descriptors, Milliseconds longest);

}  // namespace lm_head
