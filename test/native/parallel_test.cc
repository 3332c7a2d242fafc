// Prints how many threads the CPU kernels take for more work than there can be, and for hardly any.
#include "../../kernels/cpu/parallel.h"

#include <cstdint>
#include <cstdio>
#include <thread>

int main() {
  std::printf("%d of %u, %d\n", lm_head::threadsFor(INT64_MAX), std::thread::hardware_concurrency(),
              lm_head::threadsFor(1));
  return 0;
}
