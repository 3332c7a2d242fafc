// What rank 0 knows of all ranks, and what it decides. Messages in, messages out; no sockets and no threads.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "connection.h"

namespace lm_head {

// "rank 1", "ranks 1 and 2", "ranks 1, 2 and 3"
std::string ranksText(const std::vector<int>& ranks);

class ControlHub {
 public:
  ControlHub(int worldSize, Milliseconds timeout) : ranks_(worldSize), timeout_(timeout) {}

  void receive(int rank, const Message& message, Clock::time_point now);
  // The connection to a rank is gone, or it has been silent for too long; `how` completes "rank 1 ...".
  void lose(int rank, const std::string& how);
  // Decides what only time can; called now and then.
  void look(Clock::time_point now);

  struct Outgoing {
    int rank;
    Message message;
  };
  // To be sent in this order.
  std::deque<Outgoing>& outbox() { return outbox_; }

 private:
  struct Rank {
    int64_t begun = 0;
    int64_t completed = 0;
    bool leaving = false;
    int64_t lastStep = 0;  // of a rank that leaves
    bool gone = false;
  };
  struct Ballot {
    std::vector<std::optional<Message>> votes;  // by rank
    Clock::time_point deadline;
  };

  void vote(int rank, const Message& message, Clock::time_point now);
  void decide(int64_t step);
  void toAll(const Message& message);
  void fail(const std::string& text);
  std::string latecomers(const std::vector<int>& ranks, int64_t step, const std::string& what) const;

  std::vector<Rank> ranks_;
  Milliseconds timeout_;
  std::map<int64_t, Ballot> ballots_;  // by step
  std::deque<Outgoing> outbox_;
  bool failed_ = false;
};

}  // namespace lm_head
