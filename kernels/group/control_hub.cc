#include "control_hub.h"

#include <algorithm>

namespace lm_head {
namespace {

// Two ranks that hold an id in common, which would count twice; empty: there are none. All have voted.
std::string sameIds(const std::vector<std::optional<Message>>& votes) {
  std::vector<const Message*> holders;
  for (const std::optional<Message>& vote : votes) {
    if (vote->ids.begin < vote->ids.end) holders.push_back(&*vote);
  }
  std::stable_sort(holders.begin(), holders.end(),
                   [](const Message* a, const Message* b) { return a->ids.begin < b->ids.begin; });
  const auto text = [](const Message& vote) {
    return "[" + std::to_string(vote.ids.begin) + ", " + std::to_string(vote.ids.end) + ") in rank " +
           std::to_string(vote.rank);
  };
  for (size_t i = 1; i < holders.size(); ++i) {
    if (holders[i]->ids.begin < holders[i - 1]->ids.end) return text(*holders[i - 1]) + " and " + text(*holders[i]);
  }
  return "";
}

}  // namespace

std::string ranksText(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

void ControlHub::receive(int rank, const Message& message, Clock::time_point now) {
  if (failed_) return;
  Rank& sender = ranks_[rank];
  switch (message.type) {
    case MessageType::kProgress:
      sender.begun = message.step;
      sender.completed = message.completed;
      return;
    case MessageType::kVote:
      return vote(rank, message, now);
    case MessageType::kStuck: {
      std::vector<int> late;
      for (size_t other = 0; other < ranks_.size(); ++other) {
        if (ranks_[other].begun < message.step) late.push_back(static_cast<int>(other));
      }
      if (!late.empty()) return fail(latecomers(late, message.step, message.text));
      return fail("step " + std::to_string(message.step) + " (" + message.text + ") did not complete on rank " +
                  std::to_string(rank) + " within " + std::to_string(timeout_.count()) +
                  " ms, though all ranks have begun it");
    }
    case MessageType::kLeave:
      sender.leaving = true;
      sender.lastStep = message.step;
      toAll({MessageType::kRequestProgress, 0, 0, 0, ""});
      return;
    case MessageType::kFail:
      return fail(message.text);
    default:
      return fail("rank " + std::to_string(rank) + " sent what no rank sends to rank 0");
  }
}

void ControlHub::lose(int rank, const std::string& how) {
  if (!ranks_[rank].gone) fail("rank " + std::to_string(rank) + " " + how);
}

void ControlHub::look(Clock::time_point now) {
  if (failed_) return;
  for (const auto& [step, ballot] : ballots_) {
    if (now < ballot.deadline) continue;
    std::vector<int> late;
    std::string what;
    for (size_t rank = 0; rank < ballot.votes.size(); ++rank) {
      const std::optional<Message>& vote = ballot.votes[rank];
      if (!vote) late.push_back(static_cast<int>(rank));
      if (vote && what.empty()) what = vote->text;
    }
    return fail(latecomers(late, step, what));
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& leaver = ranks_[rank];
    const bool hasAll = std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& other) {
      return other.gone || other.completed >= leaver.lastStep;
    });
    if (!leaver.leaving || leaver.gone || !hasAll) continue;
    outbox_.push_back({static_cast<int>(rank), {MessageType::kMayLeave, 0, 0, 0, ""}});
    ranks_[rank].gone = true;
    // The others cannot go on without it. They have all that was begun together.
    fail("rank " + std::to_string(rank) + " has closed the group");
    return;
  }
}

void ControlHub::vote(int rank, const Message& message, Clock::time_point now) {
  auto found = ballots_.find(message.step);
  if (found == ballots_.end()) {
    const Ballot ballot{std::vector<std::optional<Message>>(ranks_.size()), now + timeout_};
    found = ballots_.emplace(message.step, ballot).first;
    toAll({MessageType::kAsk, 0, message.step, 0, ""});
  }
  found->second.votes[rank] = message;
  decide(message.step);
}

void ControlHub::decide(int64_t step) {
  const Ballot& ballot = ballots_.at(step);
  std::map<std::string, std::vector<int>> ranksOf;  // by what they do
  for (const std::optional<Message>& vote : ballot.votes) {
    if (vote) ranksOf[vote->text].push_back(vote->rank);
  }
  if (ranksOf.size() > 1) {
    std::string text;
    for (const auto& [what, ranks] : ranksOf) {
      text += (text.empty() ? "" : ", ") + ranksText(ranks) + (ranks.size() == 1 ? " runs " : " run ") + what;
    }
    return fail("the ranks differ in step " + std::to_string(step) + ": " + text);
  }
  if (ranksOf.begin()->second.size() < ballot.votes.size()) return;
  if (const std::string both = sameIds(ballot.votes); !both.empty()) {
    return fail("vocabStart must give every rank ids of its own, but step " + std::to_string(step) + " (" +
                ranksOf.begin()->first + ") got " + both);
  }
  ballots_.erase(step);
  toAll({MessageType::kAgreed, 0, step, 0, ""});
}

void ControlHub::toAll(const Message& message) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].gone) outbox_.push_back({static_cast<int>(rank), message});
  }
}

void ControlHub::fail(const std::string& text) {
  if (failed_) return;
  failed_ = true;
  toAll({MessageType::kFail, 0, 0, 0, text});
}

std::string ControlHub::latecomers(const std::vector<int>& late, int64_t step, const std::string& what) const {
  return ranksText(late) + " did not come to step " + std::to_string(step) + " (" + what + ") within " +
         std::to_string(timeout_.count()) + " ms";
}

}  // namespace lm_head
