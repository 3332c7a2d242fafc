// The launchers alone, without TensorFlow and Node.js.
// usage: cuda_test [--quick | --bench [--json]]   (--quick: small shapes, for compute-sanitizer)
#include <cstring>

#include "harness.cuh"

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const bool bench = argc > 1 && std::strcmp(argv[1], "--bench") == 0;
  if (argc > 1 && !quick && !bench) {
    std::printf("usage: %s [--quick | --bench [--json]]\n", argv[0]);
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("cuda_test needs an NVIDIA GPU and its driver; none was found\n");
    return 1;
  }
  if (bench) {
    const bool json = argc > 2 && std::strcmp(argv[2], "--json") == 0;
    test::vocabParallelArgmaxBenchmark(json);
    test::benchmark(json);
    return test::failures != 0;
  }
  test::lmHeadTopK(quick);
  test::vocabParallelArgmax(quick);
  test::mergeTopK();
  std::printf("%d checks, %d failed\n", test::checks, test::failures);
  return test::failures != 0;
}
