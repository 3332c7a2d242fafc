// The launchers alone, without TensorFlow and Node.js.
// usage: cuda_test [--quick | --sanitize]                  tests; --sanitize is for compute-sanitizer
//        cuda_test --bench [--json]                        times, one JSON object a line
//        cuda_test --matrix [--json] [--format F] [--part I/N]
//                                                          times of many shapes, formats, k and orders of scores, of
//                                                          one format; of every Nth shape from the Ith on
#include <cstdio>
#include <string>

#include "harness.cuh"

namespace {

enum class Task { kTest, kBench, kMatrix };

struct Options {
  Task task = Task::kTest;
  test::Selection selection = test::Selection::kAll;
  test::MatrixSelection matrix;
  bool json = false;
};

bool parse(int argc, char** argv, Options* options) {
  bool ofMatrix = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (i == 1 && option == "--quick") {
      options->selection = test::Selection::kQuick;
    } else if (i == 1 && option == "--sanitize") {
      options->selection = test::Selection::kSanitize;
    } else if (i == 1 && option == "--bench") {
      options->task = Task::kBench;
    } else if (i == 1 && option == "--matrix") {
      options->task = Task::kMatrix;
    } else if (option == "--json") {
      options->json = true;
    } else if (option == "--format" && *value != 0) {
      options->matrix.format = value;
      ofMatrix = true;
      ++i;
    } else if (option == "--part") {
      test::MatrixSelection& matrix = options->matrix;
      char rest = 0;
      if (std::sscanf(value, "%d/%d%c", &matrix.part, &matrix.parts, &rest) != 2) return false;
      if (matrix.part < 1 || matrix.part > matrix.parts) return false;
      ofMatrix = true;
      ++i;
    } else {
      return false;
    }
  }
  if (ofMatrix && options->task != Task::kMatrix) return false;
  return !options->json || options->task != Task::kTest;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::printf("usage: %s [--quick | --sanitize | --bench [--json] | --matrix [--json] [--format F] [--part I/N]]\n",
                argv[0]);
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("cuda_test needs an NVIDIA GPU and its driver; none was found\n");
    return 1;
  }
  if (options.task == Task::kBench) {
    test::vocabParallelArgmaxBenchmark(options.json);
    test::benchmark(options.json);
    return test::failures != 0;
  }
  if (options.task == Task::kMatrix) {
    if (!test::matrix(options.matrix, options.json)) {
      std::printf("there is no format %s\n", options.matrix.format.c_str());
      return 2;
    }
    return test::failures != 0;
  }
  test::lmHeadTopK(options.selection);
  test::scoreOptions(options.selection);
  test::decoding(options.selection);
  test::vocabParallelArgmax(options.selection);
  test::mergeTopK(options.selection);
  std::printf("%d checks, %d failed\n", test::checks, test::failures);
  return test::failures != 0;
}
