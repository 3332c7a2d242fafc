#pragma once

#include <cstdint>

namespace lm_head {

// A gather among ranks that can lose one: its kernel is then ended from outside, with incomplete data. `failed` is set
// before that, so whoever reads it behind the gather knows. Both words are host memory that the GPU can reach.
struct GatherStep {
  const int* failed;  // null: nothing was gathered
  int64_t* done;      // told `number` once the gather has ended and has not failed
  int64_t number;
};

}  // namespace lm_head
