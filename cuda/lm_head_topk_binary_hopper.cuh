// Binary heads against up to 32 rows a block on compute capability 9.0: as lm_head_topk_binary_many.cuh, but warpgroups
// multiply, which read hidden from shared memory by themselves. Groups of 128 columns alone.
#pragma once

#include "common/hopper.cuh"
#include "lm_head_topk_binary_scores.cuh"
#include "lm_head_topk_binary_stream.cuh"

namespace lm_head {

// sums += a * b for 64 ids, 32 columns of b and 32 terms, a in registers and b in shared memory.
__device__ inline void multiplyWarpgroupBytes(int (&s)[16], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.u8.s8 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, 1;"
      : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]), "+r"(s[8]),
        "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]), "+r"(s[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// kWarpgroups warpgroups, each 64 ids of the tile against all rows, and a warp that copies.
template <int kWarpgroups, int kStages>
class BinaryHopperScorer {
 public:
  using Params = BinaryScorerParams;
  static constexpr bool kStartsEarly = true;
  static constexpr int kRows = 32, kTiles = kRows / 8;
  static constexpr int kWarps = 4 * kWarpgroups, kWorkers = 32 * kWarps, kThreads = kWorkers + 32;
  using Stream = BinaryStream<kWarps, 1, true, kStages, true, 1, 4>;
  static constexpr int kTileVocab = Stream::kTileVocab, kSmallTileVocab = Stream::kGranularity;

  static __host__ __device__ size_t sharedBytes(const BinaryLayout& layout) {
    return operandBytes(layout) + Stream::sharedBytes(layout);
  }
  __device__ size_t sharedBytes() const { return sharedBytes(layout_); }

  __device__ BinaryHopperScorer(const ScanParams& scan, const Params& params, unsigned char* shared, int64_t rowBegin,
                                int rows)
      : args_(scan.args),
        params_(params),
        layout_{scan.args.hiddenSize, scan.args.groupSize},
        stream_(scan.args, shared + operandBytes(layout_)),
        rowBegin_(rowBegin),
        rows_(rows) {
    stream_.start();
    blocks_ = static_cast<int>(layout_.blocks());
    groups_ = static_cast<int>(layout_.quads()) * 4;
    bytes_ = shared;
    bases_ = reinterpret_cast<int*>(shared + blocks_ * kBlockBytes);
    rowScales_ = reinterpret_cast<float*>(bases_ + kRows * groups_);
  }

  __device__ void prepare() {
    const auto* bytes = static_cast<const uint4*>(params_.operand) + rowBegin_ * blocks_ * 8;
    for (int i = threadIdx.x; i < blocks_ * kBlockBytes / 16; i += kThreads)
      reinterpret_cast<uint4*>(bytes_)[i] = bytes[i];
    const int* bases = params_.bases + rowBegin_ * groups_;
    for (int i = threadIdx.x; i < kRows * groups_; i += kThreads) bases_[i] = largeBase(bases[i]);
    if (threadIdx.x < kRows)
      rowScales_[threadIdx.x] = threadIdx.x < rows_ ? params_.rowScales[rowBegin_ + threadIdx.x] : 0.0f;
    fenceSharedWrites();
    __syncthreads();
  }

  __device__ void assist(const Tiling&) { stream_.copyAll(); }
  __device__ void startWork() {}
  __device__ bool serves(int) const { return true; }

  __device__ void scoreTile(const Tile& tile, TopKLists<kWorkers>& lists, LogSums& logSums) {
    if (!stream_.serves(tile)) return stream_.skipTile();
    float sums[kTiles][4][4] = {};  // as in BinaryManyScorer
    const int chunks = stream_.chunks();
    for (int chunk = 0; chunk < chunks - 1; ++chunk) addChunk<true>(chunk, 4, sums);
    if (stream_.blocks(chunks - 1) == 4) {
      addChunk<true>(chunks - 1, 4, sums);
    } else {
      addChunk<false>(chunks - 1, stream_.blocks(chunks - 1), sums);
    }
    const int64_t firstId = tile.firstId + threadIdx.x / 32 * Stream::kUnitIds;
    offerUnit<kTiles>(args_, firstId, rows_, rowScales_, sums, lists, logSums);
  }

 private:
  static constexpr int kBlockBytes = kRows * 128;

  static __host__ __device__ size_t operandBytes(const BinaryLayout& layout) {
    return layout.blocks() * kBlockBytes + kRows * (layout.quads() * 16 + 4);
  }

  template <bool kFull>
  __device__ void addChunk(int chunk, int blocks, float (&sums)[kTiles][4][4]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const unsigned char* slot = stream_.next();
    uint32_t lower[4], upper[4];
    float lowerScales[4], upperScales[4];
    Stream::template loadWords<kFull>(slot, 0, 0, blocks, lower);
    Stream::template loadWords<kFull>(slot, 0, 1, blocks, upper);
    loadLargeScales(stream_.scales(0, 0), g, lowerScales);
    loadLargeScales(stream_.scales(0, 0), g + 8, upperScales);
    stream_.release();
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      if (!kFull && b >= blocks) break;
      const int block = chunk * 4 + b;
      int dots[4 * kTiles];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int2 bases = *reinterpret_cast<const int2*>(bases_ + block * kRows + tile * 8 + t * 2);
        dots[4 * tile] = dots[4 * tile + 2] = bases.x;
        dots[4 * tile + 1] = dots[4 * tile + 3] = bases.y;
      }
      uint32_t a[4][4];
      expandBits<true>(lower[b], upper[b], a);
      const uint64_t hidden = matrixDescriptor(bytes_ + block * kBlockBytes);
      // Both sides of the products stand in registers before the fence.
      for (int& dot : dots) asm volatile("" : "+r"(dot)::"memory");
      for (auto& step : a) {
        for (uint32_t& bytes : step) asm volatile("" : "+r"(bytes)::"memory");
      }
      fenceProducts();
#pragma unroll
      for (int step = 0; step < 4; ++step) multiplyWarpgroupBytes(dots, a[step], hidden + 2 * step);
      commitProducts();
      waitForProducts<0>();
      for (int& dot : dots) asm volatile("" : "+r"(dot)::"memory");
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        addScaledDot(sums[tile][0][b], dots[4 * tile], lowerScales[b]);
        addScaledDot(sums[tile][1][b], dots[4 * tile + 1], lowerScales[b]);
        addScaledDot(sums[tile][2][b], dots[4 * tile + 2], upperScales[b]);
        addScaledDot(sums[tile][3][b], dots[4 * tile + 3], upperScales[b]);
      }
    }
  }

  const LmHeadTopKArgs& args_;
  const Params& params_;
  const BinaryLayout layout_;
  Stream stream_;
  int64_t rowBegin_;
  int rows_, blocks_, groups_;
  unsigned char* bytes_;
  int* bases_;
  float* rowScales_;
};

}  // namespace lm_head
