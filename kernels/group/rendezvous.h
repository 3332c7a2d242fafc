// How the ranks of a group find each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "connection.h"

namespace lm_head {

struct RendezvousOptions {
  int rank = 0;
  int worldSize = 0;  // at least 2
  std::string host;   // of rank 0
  int port = 0;
  Milliseconds timeout{};  // for all ranks to come
  std::string device;      // which no two ranks may share; empty: not compared
  std::string greeting;    // of rank 0, for all
};

struct Rendezvous {
  std::vector<std::unique_ptr<Connection>> peers;  // by rank: rank 0 has all others, the others have rank 0
  std::string greeting;
};

// Returns when all ranks are there.
// @throws std::runtime_error that names the ranks that did not come or do not fit; the same on all that came
Rendezvous meetRanks(const RendezvousOptions& options);

}  // namespace lm_head
