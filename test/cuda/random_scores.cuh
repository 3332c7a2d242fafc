// The scores of all rows of random data, kept on the device, and results checked against them there: the host would be
// slower than what is checked.
#pragma once

#include "../../kernels/core/order.h"
#include "naive_scores.cuh"

namespace test {

// How many results of all rows have which fault.
struct ResultFaults {
  int badIds;       // out of range, or more than once
  int wrongValues;  // farther from the score than its bound
  int unsorted;     // not behind the result before it, by the one order
  int missedIds;    // better than the last result and not among them
};

// A block a row. Shared memory: a bit an id.
static __global__ void checkResults(const double* scores, const double* bounds, int64_t vocab, const float* values,
                                    const int32_t* indices, int64_t k, ResultFaults* faults) {
  extern __shared__ uint32_t returned[];
  scores += blockIdx.x * vocab;
  bounds += blockIdx.x * vocab;
  values += blockIdx.x * k;
  indices += blockIdx.x * k;
  for (int64_t word = threadIdx.x; word < (vocab + 31) / 32; word += blockDim.x) returned[word] = 0;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < k; i += blockDim.x) {
    const int32_t id = indices[i];
    const float value = values[i];
    if (id < 0 || id >= vocab || (atomicOr(&returned[id / 32], 1u << id % 32) >> id % 32 & 1) != 0) {
      atomicAdd(&faults->badIds, 1);
      continue;
    }
    // Where no error is allowed, none is allowed by the rounding of the bound either.
    const double most = bounds[id] > 0.0 ? bounds[id] + 1e-7 * fabs(scores[id]) : 0.0;
    if (!(fabs(value - scores[id]) <= most)) atomicAdd(&faults->wrongValues, 1);
    if (i > 0 && lm_head::makeKey(values[i - 1], indices[i - 1]) <= lm_head::makeKey(value, id))
      atomicAdd(&faults->unsorted, 1);
  }
  __syncthreads();
  const float last = values[k - 1];
  for (int64_t id = threadIdx.x; id < vocab; id += blockDim.x) {
    if ((returned[id / 32] >> id % 32 & 1) == 0 && !(scores[id] - bounds[id] <= last)) atomicAdd(&faults->missedIds, 1);
  }
}

class RandomScores {
 public:
  // `hidden`: args.hidden on the host. The scores of the first `rows` rows.
  RandomScores(const LmHeadTopKArgs& args, const std::vector<float>& hidden, int64_t rows)
      : vocab_(args.vocabSize), scores_(rows * vocab_), bounds_(rows * vocab_), faults_(1) {
    for (int64_t row = 0; row < rows; ++row)
      launchNaiveScores(args, hidden, row, scores_.data() + row * vocab_, bounds_.data() + row * vocab_);
    must(cudaDeviceSynchronize(), "naive scores");
  }

  // What is wrong with the results of the first `rows` rows, all of them; empty: nothing.
  std::string faultOf(const float* values, const int32_t* indices, int64_t rows, int64_t k) const {
    must(cudaMemset(faults_.data(), 0, sizeof(ResultFaults)), "forget faults");
    const size_t sharedBytes = (vocab_ + 31) / 32 * sizeof(uint32_t);
    checkResults<<<static_cast<unsigned>(rows), 512, sharedBytes>>>(scores_.data(), bounds_.data(), vocab_, values,
                                                                    indices, k, faults_.data());
    must(cudaGetLastError(), "check results");
    const ResultFaults faults = faults_.get()[0];
    std::string text;
    const auto add = [&](int count, const char* what) {
      if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
    };
    add(faults.badIds, "ids out of range or repeated");
    add(faults.wrongValues, "wrong values");
    add(faults.unsorted, "results out of order");
    add(faults.missedIds, "ids missed");
    return text;
  }

 private:
  int64_t vocab_;
  DeviceArray<double> scores_, bounds_;
  DeviceArray<ResultFaults> faults_;
};

}  // namespace test
