// Binary heads against one or two rows, on 1-bit tensor cores, with no weight ever expanded: and + popcount of a weight
// row with a bit plane of hidden, weighted by the plane's power of two, is the sum of q where the weight is +1. The
// arithmetic is that of the plain reference, step for step: exact integer group sums, then single fp32 roundings.
#pragma once

#include "binary.cuh"

namespace lm_head {

// counts += popcount(a & b): a is 16 weight rows x 128 bits, b is 128 bits x 8 planes.
__device__ inline void countAnd(int (&counts)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm volatile("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(counts[0]), "+r"(counts[1]), "+r"(counts[2]), "+r"(counts[3])
               : "r"(a0), "r"(a1), "r"(b));
}

// Memory is what takes the time of a bulk stream here, so the last tiles are dynamic.
template <int kRows, bool kGroup128, bool kBulk>
using BinaryPlanesBase =
    BinaryMainloop<BinaryStream<16, 1, kGroup128, kBulk ? 5 : 8, kBulk, 2, 1, kBulk>, kRows, HiddenForm::kPlanes>;

// Each of 16 warps has 16 ids of the tile. Lane (g, t) holds words of ids g and g+8, counts for planes 2t and 2t+1,
// and, once a quad has exchanged its counts, the groups whose index is t mod 4: the four running sums of the definition
// are the quad's lanes.
template <int kRows, bool kGroup128, bool kBulk>
class BinaryPlanesMainloop : public BinaryPlanesBase<kRows, kGroup128, kBulk> {
  using Base = BinaryPlanesBase<kRows, kGroup128, kBulk>;
  using Base::args_, Base::layout_, Base::stream_, Base::rows_, Base::blocks_;

 public:
  using Base::kWorkers;
  using typename Base::Params, typename Base::Stream;
  // Bulk copies take whole tiles of the layout: parts of one would take as many copies, and no less time.
  static constexpr int kSmallTileVocab = kBulk ? Stream::kTileVocab : Stream::kGranularity;

  __device__ BinaryPlanesMainloop(const SweepParams& sweep, const Params& params, unsigned char* shared,
                                  int64_t rowBegin, int rows)
      : Base(sweep, params, shared, rowBegin, rows),
        planes_(reinterpret_cast<uint32_t*>(shared)),
        bases_(Base::hiddenOf(layout_).bases(shared)) {
    planeWords_ = blocks_ * 32;
    quads_ = static_cast<int>(layout_.quads());
    const int t = threadIdx.x % 4, even = 1 << (2 * t), odd = t == 3 ? -2 * even : 2 * even;
    planeWeights_[0] = even, planeWeights_[1] = odd, planeWeights_[2] = even << 16, planeWeights_[3] = odd << 16;
    // Opaque, so that no product of counts and weights becomes a shift and more.
    for (int& weight : planeWeights_) asm("" : "+r"(weight));
  }

  template <class Reductions>
  __device__ __forceinline__ void scoreTile(const Tile& tile, Reductions& reductions) {
    const int lane = threadIdx.x % 32, t = lane % 4, warp = threadIdx.x / 32;
    float own[1][2] = {};
    float sums[kRows][2] = {};  // of ids g and g+8: this lane's one of the four running sums
    const bool serves = stream_.serves(tile);
    const IdPair ids = serves ? IdPair(args_, tile.firstId + warp * Stream::kWarpIds) : IdPair();
    if (!serves) {
      stream_.skipTile();
    } else if constexpr (kGroup128) {
      sumGroupsOf128(sums);
    } else {
      sumGroupsOfAnySize(sums);
    }
    // Lane t of a quad goes on with row t.
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = sums[row][half];
        sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
        sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
        if (row == t) own[0][half] = sum;
      }
    }
    Base::emit(reductions, ids, own, warp);
  }

 private:
  // A chunk is four groups, a block each. Two chunks at a time, so that one's steps fill the other's waits.
  __device__ void sumGroupsOf128(float (&sums)[kRows][2]) {
    constexpr int kTogether = 2;
    const int chunks = stream_.chunks(), fullChunks = blocks_ / BinaryLayout::kChunkBlocks;
    int chunk = 0;
    for (; chunk + kTogether <= fullChunks; chunk += kTogether) {
      Chunk loaded[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (i % Stream::kStageChunks == 0) stream_.next();
        loaded[i] = loadChunk<true>(i % Stream::kStageChunks, 4);
        if ((i + 1) % Stream::kStageChunks == 0) stream_.release();
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) addChunk<true>(loaded[i], chunk + i, 4, sums);
    }
    // Of a last stage, one chunk, or a full one and one that is not.
    for (int inStage = 0; chunk < chunks; ++chunk) {
      const int blocks = stream_.blocks(chunk);
      if (inStage == 0) stream_.next();
      const Chunk loaded = loadChunk<false>(inStage, blocks);
      if (++inStage == Stream::kStageChunks || chunk + 1 == chunks) {
        stream_.release();
        inStage = 0;
      }
      addChunk<false>(loaded, chunk, blocks, sums);
    }
  }

  // A lane's part of a chunk.
  struct Chunk {
    uint32_t lower[4], upper[4];
    float scales[2];
  };

  template <bool kFull>
  __device__ Chunk loadChunk(int inStage, int blocks) const {
    const unsigned char* bits = stream_.bits(inStage);
    Chunk chunk;
    Stream::template loadWords<kFull>(bits, 0, 0, blocks, chunk.lower);
    Stream::template loadWords<kFull>(bits, 0, 1, blocks, chunk.upper);
    loadScales(stream_.scales(0, inStage), chunk.scales);
    return chunk;
  }

  template <bool kFull>
  __device__ void addChunk(const Chunk& words, int chunk, int blocks, float (&sums)[kRows][2]) const {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      uint32_t planes[4];
      Stream::template loadInterleaved<kFull>(planes_ + row * planeWords_ + chunk * 128, threadIdx.x % 32, blocks,
                                              planes);
      // The sums of q for ids g and g+8 lie within 16 bits: both go into one word, and four lanes' 0x2000 keep the
      // lower one above 0, so that nothing is borrowed from the upper one.
      int packed[4];
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        int counts[4] = {};
        countAnd(counts, words.lower[b], words.upper[b], planes[b]);
        packed[b] = 0x2000;
#pragma unroll
        for (int i = 0; i < 4; ++i) packed[b] += counts[i] * planeWeights_[i];
      }
      const int both = scatterSum(packed);
      addQuad(words.scales, row, chunk, 2 * (both & 0xffff) - 0x10000, 2 * (both >> 16), sums[row]);
    }
  }

  // Blocks are cut where groups end; a lane whose word belongs to another piece takes part with zeros.
  __device__ void sumGroupsOfAnySize(float (&sums)[kRows][2]) {
    const int lane = threadIdx.x % 32, t = lane % 4;
    const int words = static_cast<int>(layout_.words()), groupWords = static_cast<int>(args_.groupSize / 32);
    int counts[kRows][4] = {};
    int weighted[kRows][2][4] = {};
    int group = 0, groupEnd = groupWords;
    for (int chunk = 0; chunk < stream_.chunks(); ++chunk) {
      stream_.next();
      const int blocks = stream_.blocks(chunk), firstQuad = stream_.firstQuad(chunk);
      uint32_t lower[4], upper[4];
      Stream::template loadWords<false>(stream_.bits(), 0, 0, blocks, lower);
      Stream::template loadWords<false>(stream_.bits(), 0, 1, blocks, upper);
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        if (b >= blocks) break;
        const int blockBegin = (chunk * 4 + b) * 4, blockEnd = min(blockBegin + 4, words);
        for (int begin = blockBegin; begin < blockEnd;) {
          const int end = min(groupEnd, blockEnd);
          const bool mine = blockBegin + t >= begin && blockBegin + t < end;
#pragma unroll
          for (int row = 0; row < kRows; ++row) {
            const uint32_t plane = planes_[row * planeWords_ + chunk * 128 + lane * blocks + b];
            countAnd(counts[row], mine ? lower[b] : 0, mine ? upper[b] : 0, plane);
          }
          if (end == groupEnd) {
            const bool last = end == words;
#pragma unroll
            for (int row = 0; row < kRows; ++row) {
              int halves[2];
              weigh(counts[row], halves[0], halves[1]);
#pragma unroll
              for (int i = 0; i < 4; ++i) {
                counts[row][i] = 0;
                if (i == group % 4) weighted[row][0][i] = halves[0], weighted[row][1][i] = halves[1];
              }
              if (group % 4 != 3 && !last) continue;
              float scales[2];
              loadScales(stream_.scales(0, group / 4 - firstQuad), scales);
              addQuad(scales, row, group / 4, scatterSum(weighted[row][0]), scatterSum(weighted[row][1]), sums[row]);
#pragma unroll
              for (int i = 0; i < 4; ++i) weighted[row][0][i] = weighted[row][1][i] = 0;
            }
            ++group;
            groupEnd += groupWords;
          }
          begin = end;
        }
      }
      stream_.release();
    }
  }

  // Twice the sum of q that this lane's planes 2t and 2t+1 make, for ids g and g+8. The last plane of two's complement
  // counts negative.
  static __device__ void weigh(const int (&counts)[4], int& lower, int& upper) {
    const int t = threadIdx.x % 4;
    const int even = 2 << (2 * t), odd = t == 3 ? -(2 * even) : 2 * even;
    lower = counts[0] * even + counts[1] * odd;
    upper = counts[2] * even + counts[3] * odd;
  }

  // This lane's scales of ids g and g+8: of group t of a quad.
  static __device__ void loadScales(const unsigned char* quad, float (&scales)[2]) {
    const int lane = threadIdx.x % 32;
    for (int half = 0; half < 2; ++half)
      scales[half] = __half2float(reinterpret_cast<const __half*>(quad)[half * 32 + lane]);
  }

  // Lane t adds group 4 * quad + t, given twice the sums of q for ids g and g+8. Groups that do not exist have scale 0.
  __device__ void addQuad(const float (&scales)[2], int row, int quad, int lower, int upper, float (&sums)[2]) const {
    const int base = bases_[(row * quads_ + quad) * 4 + threadIdx.x % 4];
    addScaledDot(sums[0], base + lower, scales[0]);
    addScaledDot(sums[1], base + upper, scales[1]);
  }

  // Lane t of each quad gets the quad's sum of values[t].
  static __device__ int scatterSum(const int (&values)[4]) {
    const int t = threadIdx.x % 4;
    const bool high = t & 2, odd = t & 1;
    const int first = (high ? values[2] : values[0]) + __shfl_xor_sync(0xffffffffu, high ? values[0] : values[2], 2);
    const int second = (high ? values[3] : values[1]) + __shfl_xor_sync(0xffffffffu, high ? values[1] : values[3], 2);
    return (odd ? second : first) + __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
  }

  const uint32_t* planes_;
  const int* bases_;
  int planeWords_, quads_;
  int planeWeights_[4];
};

}  // namespace lm_head
