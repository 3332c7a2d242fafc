// The launchers alone, without TensorFlow and Node.js.
// usage: cuda_test [--quick | --sanitize | --bench [--json]]   (--sanitize: for compute-sanitizer)
#include <cstring>

#include "harness.cuh"

int main(int argc, char** argv) {
  const auto asks = [&](int i, const char* option) { return argc > i && std::strcmp(argv[i], option) == 0; };
  test::Selection selection = test::Selection::kAll;
  if (asks(1, "--quick")) selection = test::Selection::kQuick;
  if (asks(1, "--sanitize")) selection = test::Selection::kSanitize;
  const bool bench = asks(1, "--bench");
  if (argc > 1 && selection == test::Selection::kAll && !bench) {
    std::printf("usage: %s [--quick | --sanitize | --bench [--json]]\n", argv[0]);
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("cuda_test needs an NVIDIA GPU and its driver; none was found\n");
    return 1;
  }
  if (bench) {
    const bool json = asks(2, "--json");
    test::vocabParallelArgmaxBenchmark(json);
    test::benchmark(json);
    return test::failures != 0;
  }
  test::lmHeadTopK(selection);
  test::vocabParallelArgmax(selection);
  test::mergeTopK(selection);
  std::printf("%d checks, %d failed\n", test::checks, test::failures);
  return test::failures != 0;
}
