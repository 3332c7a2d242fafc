// Binary heads against many rows, on 8-bit tensor cores: bits become bytes once for all rows. The same integers as the
// 1-bit way, and the same steps after them, so the same bits.
#pragma once

#include "binary.cuh"

namespace lm_head {

// sums = a * b + start: a is 16 weight rows x 32 columns, b is 32 columns x 8 rows of hidden.
__device__ inline void multiplyBytes(int (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                     const int (&start)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(start[0]), "r"(start[1]), "r"(start[2]),
        "r"(start[3]));
}

template <int kTiles, int kUnits, int kWarps, bool kGroup128, int kStages, bool kBulk>
using BinaryBytesBase =
    BinaryMainloop<BinaryStream<kWarps, kUnits, kGroup128, kStages, kBulk>, 8 * kTiles, HiddenForm::kBytes>;

// kTiles: eighths of rows. kUnits: 16 ids each, that share what a warp loads of hidden.
template <int kTiles, int kUnits, int kWarps, bool kGroup128, int kStages, bool kBulk>
class BinaryBytesMainloop : public BinaryBytesBase<kTiles, kUnits, kWarps, kGroup128, kStages, kBulk> {
  using Base = BinaryBytesBase<kTiles, kUnits, kWarps, kGroup128, kStages, kBulk>;
  using Base::args_, Base::layout_, Base::stream_, Base::rows_, Base::blocks_;

 public:
  using Base::kWorkers;
  using typename Base::Params, typename Base::Stream;
  static constexpr int kSmallTileVocab = kBulk ? Stream::kTileVocab / 2 : Stream::kGranularity;

  __device__ BinaryBytesMainloop(const SweepParams& sweep, const Params& params, unsigned char* shared,
                                 int64_t rowBegin, int rows)
      : Base(sweep, params, shared, rowBegin, rows), bytes_(reinterpret_cast<const uint4*>(shared)) {}

  template <class Reductions>
  __device__ __forceinline__ void scoreTile(const Tile& tile, Reductions& reductions) {
    Sums running = {};
    const bool serves = stream_.serves(tile);
    if (!serves) {
      stream_.skipTile();
    } else if constexpr (kGroup128) {
      sumGroupsOf128(running);
    } else {
      sumGroupsOfAnySize(running);
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = threadIdx.x / 32 * kUnits + i;
      const IdPair ids = serves ? IdPair(args_, tile.firstId + unit * Stream::kUnitIds) : IdPair();
      float sums[2 * kTiles][2];
      addRunningSums(running[i], kGroup128 ? kWeightUnit : 1.0f, sums);
      Base::emit(reductions, ids, sums, unit);
    }
  }

 private:
  // Of each unit what addRunningSums takes.
  using Sums = float[kUnits][kTiles][4][4];

  // dots = start + a * (the bytes of eight rows in a block), 128 columns.
  static __device__ void multiplyBlock(const uint32_t (&a)[4][4], const uint4& first, const uint4& second,
                                       const int (&start)[4], int (&dots)[4]) {
    multiplyBytes(dots, a[0], first.x, first.y, start);
    multiplyBytes(dots, a[1], first.z, first.w, dots);
    multiplyBytes(dots, a[2], second.x, second.y, dots);
    multiplyBytes(dots, a[3], second.z, second.w, dots);
  }

  __device__ uint4 bytesOf(int tile, int block, int half) const {
    return bytes_[((tile * blocks_ + block) * 2 + half) * 32 + threadIdx.x % 32];
  }

  // A chunk is four groups, a block each.
  __device__ void sumGroupsOf128(Sums& sums) {
    const int fullChunks = blocks_ / BinaryLayout::kChunkBlocks;
    for (int chunk = 0; chunk < fullChunks; ++chunk) addChunk<true>(chunk, BinaryLayout::kChunkBlocks, sums);
    if (fullChunks < stream_.chunks()) addChunk<false>(fullChunks, stream_.blocks(fullChunks), sums);
  }

  template <bool kFull>
  __device__ void addChunk(int chunk, int blocks, Sums& sums) {
    const int g = threadIdx.x % 32 / 4;
    stream_.next();
    uint32_t lower[kUnits][4], upper[kUnits][4];
    float lowerScales[kUnits][4], upperScales[kUnits][4];
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      Stream::template loadWords<kFull>(stream_.bits(), unit, 0, blocks, lower[unit]);
      Stream::template loadWords<kFull>(stream_.bits(), unit, 1, blocks, upper[unit]);
      loadScales(stream_.scales(unit, 0), g, lowerScales[unit]);
      loadScales(stream_.scales(unit, 0), g + 8, upperScales[unit]);
    }
    stream_.release();
    const WeightBytes bytes(true);
    const int start[4] = {kFloatBits, kFloatBits, kFloatBits, kFloatBits};
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      if (!kFull && b >= blocks) break;
      uint32_t a[kUnits][4][4];
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) bytes.expand(lower[unit][b], upper[unit][b], a[unit]);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint4 first = bytesOf(tile, chunk * 4 + b, 0), second = bytesOf(tile, chunk * 4 + b, 1);
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit) {
          int dots[4];
          multiplyBlock(a[unit], first, second, start, dots);
          addScaledDot(sums[unit][tile][0][b], dots[0], lowerScales[unit][b]);
          addScaledDot(sums[unit][tile][1][b], dots[1], lowerScales[unit][b]);
          addScaledDot(sums[unit][tile][2][b], dots[2], upperScales[unit][b]);
          addScaledDot(sums[unit][tile][3][b], dots[3], upperScales[unit][b]);
        }
      }
    }
  }

  // Blocks are cut where groups end; a lane whose word belongs to another piece takes part with zeros.
  __device__ void sumGroupsOfAnySize(Sums& sums) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int words = static_cast<int>(layout_.words()), groupWords = static_cast<int>(args_.groupSize / 32);
    int dots[kUnits][kTiles][4] = {};
    int group = 0, groupEnd = groupWords;
    for (int chunk = 0; chunk < stream_.chunks(); ++chunk) {
      stream_.next();
      const int blocks = stream_.blocks(chunk), firstQuad = stream_.firstQuad(chunk);
      uint32_t lower[kUnits][4], upper[kUnits][4];
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        Stream::template loadWords<false>(stream_.bits(), unit, 0, blocks, lower[unit]);
        Stream::template loadWords<false>(stream_.bits(), unit, 1, blocks, upper[unit]);
      }
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        if (b >= blocks) break;
        const int block = chunk * 4 + b, blockBegin = block * 4, blockEnd = min(blockBegin + 4, words);
        for (int begin = blockBegin; begin < blockEnd;) {
          const int end = min(groupEnd, blockEnd);
          const WeightBytes bytes(blockBegin + t >= begin && blockBegin + t < end);
          uint32_t a[kUnits][4][4];
#pragma unroll
          for (int unit = 0; unit < kUnits; ++unit) bytes.expand(lower[unit][b], upper[unit][b], a[unit]);
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            const uint4 first = bytesOf(tile, block, 0), second = bytesOf(tile, block, 1);
#pragma unroll
            for (int unit = 0; unit < kUnits; ++unit)
              multiplyBlock(a[unit], first, second, dots[unit][tile], dots[unit][tile]);
          }
          if (end == groupEnd) {
#pragma unroll
            for (int unit = 0; unit < kUnits; ++unit) {
              const auto* scales = reinterpret_cast<const __half*>(stream_.scales(unit, group / 4 - firstQuad));
              const float lowerScale = __half2float(scales[g * 4 + group % 4]);
              const float upperScale = __half2float(scales[g * 4 + 32 + group % 4]);
#pragma unroll
              for (int tile = 0; tile < kTiles; ++tile) {
                addGroup(sums[unit][tile], group % 4, dots[unit][tile], lowerScale, upperScale);
              }
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

  // A switch, so that sums stay in registers.
  static __device__ void addGroup(float (&sums)[4][4], int which, int (&dots)[4], float lowerScale, float upperScale) {
    // Those of a large group would leave the range that scaledDot takes.
    for (int& dot : dots) dot = (dot >> kWeightShift) + kFloatBits;
    const auto addTo = [&](auto place) {
      constexpr int kPlace = decltype(place)::value;
      addScaledDot(sums[0][kPlace], dots[0], lowerScale);
      addScaledDot(sums[1][kPlace], dots[1], lowerScale);
      addScaledDot(sums[2][kPlace], dots[2], upperScale);
      addScaledDot(sums[3][kPlace], dots[3], upperScale);
      for (int& dot : dots) dot = 0;
    };
    switch (which) {
      case 0:
        return addTo(std::integral_constant<int, 0>());
      case 1:
        return addTo(std::integral_constant<int, 1>());
      case 2:
        return addTo(std::integral_constant<int, 2>());
      default:
        return addTo(std::integral_constant<int, 3>());
    }
  }

  const uint4* bytes_;
};

}  // namespace lm_head
