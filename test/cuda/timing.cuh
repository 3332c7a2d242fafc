// Kernel times: the launcher in a CUDA graph, L2 flushed before each replay, median of 20; and the plain read that they
// are compared to.
#pragma once

#include "harness.cuh"

namespace test {

// Reads `count` times 16 bytes.
static __global__ void readAll(const uint4* data, int64_t count, uint32_t* sink) {
  uint32_t sum = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 8
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint4 v = __ldcs(data + i);
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678) *sink = sum;
}

// Keeps the GPU busy while the replay is enqueued, so that no launch latency is timed.
static __global__ void wait(int64_t cycles) {
  const int64_t begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

template <class Launch>
float medianMicroseconds(Launch launch) {
  static DeviceArray<unsigned char> flush(64 << 20);
  cudaStream_t stream;
  must(cudaStreamCreate(&stream), "stream");
  launch(stream);
  must(cudaStreamSynchronize(stream), "warm up");
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  launch(stream);
  cudaGraph_t graph;
  must(cudaStreamEndCapture(stream, &graph), "capture");
  cudaGraphExec_t executable;
  must(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < 23; ++i) {
    wait<<<1, 1, 0, stream>>>(100000);
    must(cudaMemsetAsync(flush.data(), i, flush.size(), stream), "flush");
    must(cudaEventRecord(begin, stream), "event");
    must(cudaGraphLaunch(executable, stream), "replay");
    must(cudaEventRecord(end, stream), "event");
    must(cudaStreamSynchronize(stream), "replay");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= 3) times.push_back(ms * 1000);
  }
  must(cudaGraphExecDestroy(executable), "destroy");
  must(cudaGraphDestroy(graph), "destroy");
  must(cudaEventDestroy(begin), "destroy");
  must(cudaEventDestroy(end), "destroy");
  must(cudaStreamDestroy(stream), "destroy");
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace test
