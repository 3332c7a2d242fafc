// Threads for the CPU kernels.
#pragma once

#include <cstdint>
#include <functional>

namespace lm_head {

// Threads that are worth using for so many elementary operations: at least 1, at most TF_NUM_INTRAOP_THREADS, or one a
// core where that is not set.
int threadsFor(int64_t operations);

// Runs body(worker, begin, end) for `threads` workers, each with its share of [0, count), and returns when all have
// ended. The caller is worker 0. Sleeping threads wait for work without using a core, which TensorFlow's own threads
// need between calls. What a body throws is thrown to the caller.
void parallelFor(int threads, int64_t count, const std::function<void(int worker, int64_t begin, int64_t end)>& body);

}  // namespace lm_head
