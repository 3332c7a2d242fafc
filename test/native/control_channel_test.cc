// One rank of a group's control channel, without a GPU; test/native/*.test.ts runs several and tells them what to do.
//
// usage: control_channel_test RANK WORLD_SIZE HOST PORT TIMEOUT_MS [DEVICE]
// prints "open", or "error MESSAGE" and ends with exit code 1. Then it reads commands, one a line:
//   step NAME BYTES [BEGIN END]   begins a step whose data is there at once, of a rank that holds these ids or none:
//                                 "done NUMBER" or "error MESSAGE"
//   start NAME BYTES [BEGIN END]  begins one whose data never comes: "started NUMBER" or "error MESSAGE"
//   fail MESSAGE                  makes the group fail
//   exit CODE                     ends the process, with the channel open
//   close                         leaves: "closed", and ends; so does the end of the input
// When the group fails it prints "failed MESSAGE", at any time.
#include "../../kernels/group/control_channel.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

void print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

lm_head::Call parseCall(std::istringstream& words) {
  std::string name, bytes;
  lm_head::IdRange ids;
  words >> name >> bytes >> ids.begin >> ids.end;
  return {name + " of " + bytes + " bytes", ids};
}

void obey(lm_head::ControlChannel& channel, std::atomic<int64_t>& completed) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "close") return;
    if (command == "exit") std::exit(std::stoi(line.substr(command.size())));
    if (command == "fail") {
      channel.fail(line.substr(command.size() + 1));
      continue;
    }
    try {
      const int64_t step = channel.beginStep(parseCall(words));
      if (command == "step") completed = step;
      print((command == "step" ? "done " : "started ") + std::to_string(step));
    } catch (const std::runtime_error& error) {
      print(std::string("error ") + error.what());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: %s RANK WORLD_SIZE HOST PORT TIMEOUT_MS [DEVICE]\n", argv[0]);
    return 2;
  }
  lm_head::RendezvousOptions options;
  options.rank = std::stoi(argv[1]);
  options.worldSize = std::stoi(argv[2]);
  options.host = argv[3];
  options.port = std::stoi(argv[4]);
  options.timeout = lm_head::Milliseconds(std::stoi(argv[5]));
  options.device = argc > 6 ? argv[6] : "";
  options.greeting = "from rank 0";
  std::atomic<int64_t> completed{0};
  // The hook runs on the channel's own thread, which may be faster than this one.
  lm_head::ControlChannel* self = nullptr;
  std::atomic<bool> isOpen{false}, isClosing{false}, hasEnded{false};
  try {
    lm_head::ControlHooks hooks;
    hooks.completedStep = [&] { return completed.load(); };
    hooks.problem = [] { return std::string(); };
    hooks.ended = [&](bool) {
      while (!isOpen) std::this_thread::yield();
      if (!isClosing) print("failed " + self->error());
      hasEnded = true;
    };
    lm_head::ControlChannel channel(options, hooks);
    self = &channel;
    isOpen = true;
    if (channel.greeting() != options.greeting) throw std::runtime_error("the greeting got lost");
    print("open");
    obey(channel, completed);
    isClosing = true;
    channel.close();
    print(hasEnded ? "closed" : "closed, and nobody was told");
  } catch (const std::runtime_error& error) {
    print(std::string("error ") + error.what());
    return 1;
  }
  return 0;
}
