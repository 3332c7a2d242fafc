// The floor of a kernel that has to read its weights: the fastest of several ways to read them and do nothing else.
#include <cmath>
#include <cstdint>

#include "../../cuda/ptx/bulk_copy.cuh"
#include "timing.cuh"

namespace test {
namespace {

constexpr int kLoadBytes = 16;

int deviceAttribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  must(cudaGetDevice(&device), "device");
  must(cudaDeviceGetAttribute(&value, attribute, device), "device attribute");
  return value;
}

// Reads `count` times 16 bytes.
__global__ void readAll(const uint4* data, int64_t count, uint32_t* sink) {
  uint32_t sum = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 8
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint4 v = __ldcs(data + i);
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678) *sink = sum;
}

// The blocks deal out pieces of `pieceBytes` in turn. One thread of a block copies them into a ring of `stages` places;
// a place is free again when its piece is there, for nothing looks at it.
__global__ void readByBulkCopies(const unsigned char* data, int64_t bytes, int pieceBytes, int stages) {
  // Copies to places that are not 128-byte aligned are slower.
  extern __shared__ __align__(128) unsigned char ring[];
  constexpr int kMaxStages = 16;
  __shared__ uint64_t arrived[kMaxStages];
  if (threadIdx.x != 0) return;
  for (int stage = 0; stage < stages; ++stage) lm_head::initBarrier(&arrived[stage], 1);
  lm_head::fenceBarrierInit();
  const int64_t pieces = (bytes + pieceBytes - 1) / pieceBytes;
  const int64_t own = pieces > blockIdx.x ? (pieces - blockIdx.x - 1) / gridDim.x + 1 : 0;
  for (int64_t i = 0; i < own + stages; ++i) {
    const int stage = static_cast<int>(i % stages);
    if (i >= stages && i - stages < own) {
      const uint32_t parity = static_cast<uint32_t>((i / stages - 1) & 1);
      lm_head::waitBarrier(&arrived[stage], parity);
    }
    if (i >= own) continue;
    const int64_t begin = (blockIdx.x + i * gridDim.x) * pieceBytes;
    const int length = static_cast<int>(begin + pieceBytes <= bytes ? pieceBytes : bytes - begin);
    lm_head::arriveExpecting(&arrived[stage], length);
    lm_head::copyBulk(ring + static_cast<size_t>(stage) * pieceBytes, data + begin, length, &arrived[stage],
                      lm_head::kEvictFirst);
  }
}

bool hasBulkCopies() {
  cudaFuncAttributes attributes{};
  must(cudaFuncGetAttributes(&attributes, readByBulkCopies), "attributes");
  // The GPU alone does not tell: what was compiled for an older one has a trap in their place.
  return deviceAttribute(cudaDevAttrComputeCapabilityMajor) >= 9 && attributes.ptxVersion >= 90;
}

}  // namespace

float fastestRead(const void* data, int64_t bytes, const Replays& replays) {
  static DeviceArray<uint32_t> sink(1);
  const int processors = deviceAttribute(cudaDevAttrMultiProcessorCount);
  const int64_t count = bytes / kLoadBytes;
  float best = INFINITY;
  const auto plain = [&](int64_t blocks, int threads) {
    const auto grid = static_cast<unsigned>(std::max<int64_t>(1, std::min(blocks, (count + threads - 1) / threads)));
    const auto read = [&](cudaStream_t stream) {
      readAll<<<grid, threads, 0, stream>>>(static_cast<const uint4*>(data), count, sink.data());
      must(cudaGetLastError(), "plain read");
    };
    best = std::min(best, timeReplays(read, replays).us);
  };
  plain(processors, 1024);
  plain(2 * processors, 1024);
  plain(4 * processors, 512);
  plain(8 * processors, 256);
  plain(8 * processors, 512);
  plain(32 * processors, 256);
  plain(count / (8 * 256), 256);  // each thread eight loads and no more
  if (!hasBulkCopies()) return best;

  struct Ring {
    int pieceBytes, stages;
  };
  for (const Ring ring : {Ring{48 << 10, 4}, Ring{32 << 10, 6}, Ring{16 << 10, 12}}) {
    const int sharedBytes = ring.pieceBytes * ring.stages;
    if (sharedBytes + 1024 > deviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) continue;
    must(cudaFuncSetAttribute(readByBulkCopies, cudaFuncAttributeMaxDynamicSharedMemorySize, sharedBytes), "ring");
    const auto read = [&](cudaStream_t stream) {
      readByBulkCopies<<<processors, 32, sharedBytes, stream>>>(static_cast<const unsigned char*>(data),
                                                                count * kLoadBytes, ring.pieceBytes, ring.stages);
      must(cudaGetLastError(), "ring of bulk copies");
    };
    best = std::min(best, timeReplays(read, replays).us);
  }
  return best;
}

}  // namespace test
