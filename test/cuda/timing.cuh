// Kernel times: the launcher in a CUDA graph, L2 flushed before each replay, the median of some; and the fastest read
// of the same bytes, which they are compared to.
#pragma once

#include "harness.cuh"

namespace test {

// How often a graph is replayed: unmeasured, then measured.
struct Replays {
  int warmUp = 3;
  int timed = 20;
};

struct Timing {
  float us;
  int launches;  // nodes of the graph: kernels, and memsets and copies if there are any
};

// The fastest of several reads of `bytes` bytes: plain loads from several grids, and rings of bulk copies where the GPU
// has them. `data` is 16-byte aligned.
float fastestRead(const void* data, int64_t bytes, const Replays& replays = {});

// Keeps the GPU busy while the replay is enqueued, so that no launch latency is timed.
static __global__ void wait(int64_t cycles) {
  const int64_t begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

inline DeviceArray<unsigned char>& flushedBytes() {
  static DeviceArray<unsigned char> bytes(64 << 20);
  return bytes;
}

template <class Launch>
Timing timeReplays(Launch launch, const Replays& replays = {}) {
  const DeviceArray<unsigned char>& flush = flushedBytes();
  cudaStream_t stream;
  must(cudaStreamCreate(&stream), "stream");
  launch(stream);
  must(cudaStreamSynchronize(stream), "warm up");
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  launch(stream);
  cudaGraph_t graph;
  must(cudaStreamEndCapture(stream, &graph), "capture");
  size_t launches = 0;
  must(cudaGraphGetNodes(graph, nullptr, &launches), "count nodes");
  cudaGraphExec_t executable;
  must(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < replays.warmUp + replays.timed; ++i) {
    wait<<<1, 1, 0, stream>>>(100000);
    must(cudaMemsetAsync(flush.data(), i, flush.size(), stream), "flush");
    must(cudaEventRecord(begin, stream), "event");
    must(cudaGraphLaunch(executable, stream), "replay");
    must(cudaEventRecord(end, stream), "event");
    must(cudaStreamSynchronize(stream), "replay");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= replays.warmUp) times.push_back(ms * 1000);
  }
  must(cudaGraphExecDestroy(executable), "destroy");
  must(cudaGraphDestroy(graph), "destroy");
  must(cudaEventDestroy(begin), "destroy");
  must(cudaEventDestroy(end), "destroy");
  must(cudaStreamDestroy(stream), "destroy");
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], static_cast<int>(launches)};
}

}  // namespace test
