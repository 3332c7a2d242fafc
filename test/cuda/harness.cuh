// What the launcher tests share: device memory with an owner, checks that count, seeded random numbers.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace test {

inline int failures = 0;
inline int checks = 0;
inline std::string current;

inline void expect(bool condition, const std::string& what) {
  ++checks;
  if (condition) return;
  if (++failures <= 20) std::printf("FAILED %s: %s\n", current.c_str(), what.c_str());
}

// A CUDA error leaves nothing to test: stop.
inline void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAILED %s: %s: %s\n", current.c_str(), what, cudaGetErrorString(error));
  std::exit(1);
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) { must(cudaMalloc(&data_, count * sizeof(T) + 16), "cudaMalloc"); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { set(values); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void set(const std::vector<T>& values) {
    must(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "copy to device");
  }
  std::vector<T> get() const {
    std::vector<T> values(count_);
    must(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "copy to host");
    return values;
  }
  T* data() const { return data_; }
  size_t size() const { return count_; }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// xorshift64*: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  uint32_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>((state_ * 0x2545f4914f6cdd1dull) >> 32);
  }
  // Uniform in [-1, 1).
  float uniform() { return static_cast<float>(static_cast<int32_t>(next())) * 0x1p-31f; }
  int below(int limit) { return static_cast<int>(next() % limit); }

 private:
  uint64_t state_;
};

// work(i) for i in [0, count), on all cores.
template <class Work>
void forAll(int64_t count, Work work) {
  const int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> pool;
  for (int64_t t = 0; t < threads; ++t) {
    pool.emplace_back([=] {
      for (int64_t i = count * t / threads; i < count * (t + 1) / threads; ++i) work(i);
    });
  }
  for (std::thread& thread : pool) thread.join();
}

// Which cases run: kQuick leaves out large heads, kSanitize is each kernel once, for compute-sanitizer.
enum class Selection { kAll, kQuick, kSanitize };

void lmHeadTopK(Selection selection);
void scoreOptions(Selection selection);
void decoding(Selection selection);
void vocabParallelArgmax(Selection selection);
void mergeTopK(Selection selection);
// Which part of the matrix is measured.
struct MatrixSelection {
  std::string format;       // empty: all
  int part = 1, parts = 1;  // every `parts`th shape from the `part`th on
};

// json: one object a line.
void benchmark(bool json);
void vocabParallelArgmaxBenchmark(bool json);
// False where no format has that name.
bool matrix(const MatrixSelection& selection, bool json);

}  // namespace test
