// Binary heads against up to 32 rows a block on compute capability 9.0: as binary_bytes.cuh, but warpgroups
// multiply, which read hidden from shared memory by themselves. Groups of 128 columns alone.
#pragma once

#include "../../ptx/wgmma_descriptors.cuh"
#include "binary.cuh"

namespace lm_head {

// sums (+)= a * b for 64 ids, 32 columns of b and 32 terms, a in registers and b in shared memory.
template <bool kAccumulate>
__device__ inline void multiplyWarpgroupBytes(int (&s)[16], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, %21;"
      : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]), "+r"(s[8]),
        "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]), "+r"(s[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAccumulate));
}

// Three warpgroups, each with 64 ids of the tile, and one that copies and gives up its registers.
using BinaryWgmmaBase = BinaryMainloop<BinaryStream<12, 1, true, 3, true, 1, 4>, 32, HiddenForm::kSwizzledBytes, 128>;

class BinaryWgmmaMainloop : public BinaryWgmmaBase {
 public:
  static constexpr int kSmallTileVocab = Stream::kGranularity;

  using BinaryWgmmaBase::BinaryWgmmaBase;

  __device__ void produce() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    BinaryWgmmaBase::produce();
  }
  __device__ void startWork() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    BinaryWgmmaBase::startWork();
  }

  template <class Reductions>
  __device__ __forceinline__ void scoreTile(const Tile& tile, Reductions& reductions) {
    const int unit = threadIdx.x / 32;
    float running[kTiles][4][4] = {};  // as in BinaryBytesMainloop
    const bool serves = stream_.serves(tile);
    if (serves) {
      const int fullChunks = blocks_ / BinaryLayout::kChunkBlocks;
      for (int chunk = 0; chunk < fullChunks; ++chunk) addChunk<true>(chunk, BinaryLayout::kChunkBlocks, running);
      if (fullChunks < stream_.chunks()) addChunk<false>(fullChunks, stream_.blocks(fullChunks), running);
    } else {
      stream_.skipTile();
    }
    const IdPair ids = serves ? IdPair(args_, tile.firstId + unit * Stream::kUnitIds) : IdPair();
    float sums[2 * kTiles][2];
    addRunningSums(running, kWeightUnit, sums);
    emit(reductions, ids, sums, unit);
  }

 private:
  static constexpr int kTiles = kRows / 8, kBlockBytes = kRows * 128;

  using Dots = int[4 * kTiles];
  using Bytes = uint32_t[4][4];

  // While the products of one block run, the sums of the one before are made: two sets of registers, by name, for the
  // assembler to see that they are apart; and none in flight from chunk to chunk.
  template <bool kFull>
  __device__ void addChunk(int chunk, int blocks, float (&sums)[kTiles][4][4]) {
    const int g = threadIdx.x % 32 / 4;
    stream_.next();
    uint32_t lower[4], upper[4];
    float lowerScales[4], upperScales[4];
    Stream::template loadWords<kFull>(stream_.bits(), 0, 0, blocks, lower);
    Stream::template loadWords<kFull>(stream_.bits(), 0, 1, blocks, upper);
    loadScales(stream_.scales(0, 0), g, lowerScales);
    loadScales(stream_.scales(0, 0), g + 8, upperScales);
    stream_.release();
    Dots even, odd;
    Bytes evenBytes, oddBytes;
    const auto start = [&](Dots& dots, Bytes& bytes, int b) {
      startProducts(dots, bytes, lower[b], upper[b], chunk * 4 + b);
    };
    const auto finish = [&](Dots& dots, int b) { addProducts(dots, lowerScales[b], upperScales[b], b, sums); };
    if constexpr (kFull) {
      start(even, evenBytes, 0);
      start(odd, oddBytes, 1);
      waitForProducts<1>();
      finish(even, 0);
      start(even, evenBytes, 2);
      waitForProducts<1>();
      finish(odd, 1);
      start(odd, oddBytes, 3);
      waitForProducts<1>();
      finish(even, 2);
      waitForProducts<0>();
      finish(odd, 3);
    } else {
#pragma unroll
      for (int b = 0; b < 3; ++b) {
        if (b >= blocks) break;
        start(even, evenBytes, b);
        waitForProducts<0>();
        finish(even, b);
      }
    }
  }

  __device__ void startProducts(Dots& dots, Bytes& bytes, uint32_t lower, uint32_t upper, int block) const {
    WeightBytes(true).expand(lower, upper, bytes);
    // The bytes stand in registers before the fence.
    for (auto& step : bytes) {
      for (uint32_t& four : step) asm volatile("" : "+r"(four)::"memory");
    }
    const uint64_t hidden = matrixDescriptor(shared_ + block * kBlockBytes);
    fenceProducts();
    multiplyWarpgroupBytes<false>(dots, bytes[0], hidden);
#pragma unroll
    for (int step = 1; step < 4; ++step) multiplyWarpgroupBytes<true>(dots, bytes[step], hidden + 2 * step);
    commitProducts();
  }

  static __device__ void addProducts(Dots& dots, float lowerScale, float upperScale, int b,
                                     float (&sums)[kTiles][4][4]) {
    for (int& dot : dots) asm volatile("" : "+r"(dot)::"memory");
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      addScaledDot(sums[tile][0][b], dots[4 * tile] + kFloatBits, lowerScale);
      addScaledDot(sums[tile][1][b], dots[4 * tile + 1] + kFloatBits, lowerScale);
      addScaledDot(sums[tile][2][b], dots[4 * tile + 2] + kFloatBits, upperScale);
      addScaledDot(sums[tile][3][b], dots[4 * tile + 3] + kFloatBits, upperScale);
    }
  }
};

}  // namespace lm_head
