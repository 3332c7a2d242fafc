// A time of the LM head's launcher, as a benchmark prints it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace test {

struct BenchRow {
  const char* format;
  int64_t vocab, hidden, rows, k;
  bool bias = false, logSumExp = false;
  std::string data{};    // the order of the scores; empty: random, and not said
  std::string failed{};  // why there is no time; empty: there is one
  float us = 0, floorUs = 0;
  int64_t scratchBytes = 0;
  int launches = 0;

  void print(bool json) const {
    const auto number = [](int64_t value) { return static_cast<long long>(value); };
    if (json) {
      std::printf(
          "{\"op\":\"lm_head_topk\",\"format\":\"%s\",\"vocab\":%lld,\"hidden\":%lld,\"k\":%lld,\"rows\":%lld,"
          "\"bias\":%s,\"logSumExp\":%s",
          format, number(vocab), number(hidden), number(k), number(rows), bias ? "true" : "false",
          logSumExp ? "true" : "false");
      if (!data.empty()) std::printf(",\"data\":\"%s\"", data.c_str());
      if (!failed.empty()) {
        std::printf(",\"failed\":\"%s\"}\n", failed.c_str());
      } else {
        std::printf(",\"us\":%.2f,\"floorUs\":%.2f,\"scratchBytes\":%lld,\"launches\":%d}\n", us, floorUs,
                    number(scratchBytes), launches);
      }
    } else {
      std::printf("%-8s vocab %6lld hidden %4lld k %4lld rows %3lld %s%s%-12s ", format, number(vocab), number(hidden),
                  number(k), number(rows), bias ? "bias " : "", logSumExp ? "logSumExp " : "", data.c_str());
      if (!failed.empty()) {
        std::printf("FAILED: %s\n", failed.c_str());
      } else {
        std::printf("%8.1f us, floor %7.1f us, scratch %lld bytes, %d launches\n", us, floorUs, number(scratchBytes),
                    launches);
      }
    }
    std::fflush(stdout);
  }
};

}  // namespace test
