// Dense sums on the CPU: weights are widened to float32, then multiplied in fp32. A dot product is one fixed chain,
// set by hiddenSize alone, however many ids and rows are scored together: 16 lanes, summed over kChunk columns at a
// time, then over the chunks, then over the lanes.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "mainloop.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lm_head {
namespace {

constexpr int kLanes = 16;
constexpr int kChunk = 512;

// All of it becomes a part of multiplyTileAvx512 and the like below, and so is compiled for each kind of processor.
#define INLINE inline __attribute__((always_inline))

struct Bfloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

// By a macro, for g++ converts no vectors whose type depends on a template's argument.
template <int kWidth>
struct VectorTypes;
#define VECTOR_TYPES(kWidth)                                                                      \
  template <>                                                                                     \
  struct VectorTypes<kWidth> {                                                                    \
    typedef float Floats __attribute__((vector_size(kWidth * 4)));                                \
    typedef uint32_t Words __attribute__((vector_size(kWidth * 4)));                              \
    typedef uint16_t Halves __attribute__((vector_size(kWidth * 2)));                             \
    static INLINE Words toWords(Halves halves) { return __builtin_convertvector(halves, Words); } \
  };
VECTOR_TYPES(16)
VECTOR_TYPES(8)
VECTOR_TYPES(4)

// kLanes numbers in registers of kWidth numbers.
template <int kWidth>
struct Vectors {
  using Floats = typename VectorTypes<kWidth>::Floats;
  using Words = typename VectorTypes<kWidth>::Words;
  static constexpr int kCount = kLanes / kWidth;

  static INLINE void store(Floats floats, float* to) { __builtin_memcpy(to, &floats, sizeof(floats)); }

  static INLINE Floats load(const float* from) {
    Floats floats;
    __builtin_memcpy(&floats, from, sizeof(floats));
    return floats;
  }

  static INLINE Words loadHalves(const void* from) {
    typename VectorTypes<kWidth>::Halves halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    return VectorTypes<kWidth>::toWords(halves);
  }

  static INLINE Floats load(const Bfloat16* from) { return (Floats)(loadHalves(from) << 16); }

  // Without an instruction for it: the fields shifted into place and the exponent's bias corrected. A denormal becomes
  // a number of the next exponent, less that exponent's 1.0; no step has a denormal operand, which some processors are
  // slow with.
  static INLINE Floats load(const Float16* from) {
#if defined(__x86_64__)
    if constexpr (kWidth > 4) {
      Floats floats;
      __asm__("vcvtph2ps %1, %0" : "=v"(floats) : "m"(*reinterpret_cast<const Float16(*)[kWidth]>(from)));
      return floats;
    }
#endif
    const Words bits = loadHalves(from), magnitude = bits & 0x7fff;
    const Words normal = (magnitude << 13) + (112u << 23);
    const Words denormal = (Words)((Floats)(normal + (1u << 23)) - 0x1p-14f);
    const Words finite = magnitude < 0x400 ? denormal : normal;
    const Words infiniteOrNan = (Words)(magnitude >= 0x7c00) & 0x7f800000;
    return (Floats)(finite | infiniteOrNan | (bits & 0x8000) << 16);
  }
};

// A part of a tile: products of some ids and some hidden rows over at most kChunk columns, with zeros behind them up to
// a multiple of kLanes, are added to sums [rows, kCpuTileIds].
template <class Element>
struct Part {
  const Element* weight;
  int64_t weightStride;
  int ids;
  const float* hidden;
  int64_t hiddenStride;
  int rows;
  int64_t columns;
  bool first;  // of its ids: sums begin at 0
  CacheLine* sums;
};

// The part's kIds ids from `firstId` on and kRows rows from `firstRow` on. Ids beyond the last repeat it, and what
// their sums become does not matter.
template <int kWidth, int kIds, int kRows, bool kPrefetch, class Element>
INLINE void addBlock(const Part<Element>& part, int firstId, int firstRow) {
  using Lanes = Vectors<kWidth>;
  using Floats = typename Lanes::Floats;
  const Element* weight[kIds];
  for (int id = 0; id < kIds; ++id) {
    weight[id] = part.weight + std::min(firstId + id, part.ids - 1) * part.weightStride;
  }
  const float* hidden = part.hidden + firstRow * part.hiddenStride;
  Floats chunk[kRows][kIds][Lanes::kCount] = {};
  for (int64_t column = 0; column < part.columns; column += kLanes) {
    for (int i = 0; i < Lanes::kCount; ++i) {
      Floats h[kRows];
      for (int row = 0; row < kRows; ++row) {
        h[row] = Lanes::load(hidden + row * part.hiddenStride + column + i * kWidth);
      }
      for (int id = 0; id < kIds; ++id) {
        const Floats w = Lanes::load(weight[id] + column + i * kWidth);
        for (int row = 0; row < kRows; ++row) chunk[row][id][i] += w * h[row];
      }
    }
    if constexpr (kPrefetch) {
      // Rows are too short for the processor to see where it goes on: the same column of the ids that come next.
      for (int id = 0; id < kIds && column % (64 / sizeof(Element)) == 0; ++id) {
        __builtin_prefetch(weight[id] + column + kIds * part.weightStride);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int id = 0; id < kIds; ++id) {
      float* sum = part.sums[(firstRow + row) * kCpuTileIds + firstId + id].floats;
      for (int i = 0; i < Lanes::kCount; ++i, sum += kWidth) {
        Floats before = {};
        if (!part.first) before = Lanes::load(sum);
        Lanes::store(before + chunk[row][id][i], sum);
      }
    }
  }
}

// All of a part from `firstRow` on: blocks of kRows rows, then of half as many for what is left.
template <int kWidth, int kRows, bool kPrefetch, class Element>
INLINE void addPart(const Part<Element>& part, int firstRow = 0) {
  // As many sums as there are registers for.
  constexpr int kIds = kWidth == 16 ? std::min(8, 16 / kRows) : 4 / kRows;
  for (; firstRow + kRows <= part.rows; firstRow += kRows) {
    for (int id = 0; id < part.ids; id += kIds) addBlock<kWidth, kIds, kRows, kPrefetch>(part, id, firstRow);
  }
  if constexpr (kRows > 1) addPart<kWidth, kRows / 2, kPrefetch>(part, firstRow);
}

template <class Element>
struct Weights {
  const Element* first;
  int64_t rowStride;
  int64_t columnStride;
};

// Columns [begin, begin + columns) of some ids, from columns that lie apart to rows of kChunk; by fours, which make one
// store.
INLINE void transpose(const Weights<float>& weights, int ids, int64_t begin, int64_t columns, float* to) {
  const int64_t stride = weights.columnStride;
  const float* first = weights.first + begin * stride;
  int64_t column = 0;
  for (; column + 4 <= columns; column += 4) {
    for (int id = 0; id < ids; ++id) {
      const float* from = first + column * stride + id * weights.rowStride;
      const float four[4] = {from[0], from[stride], from[2 * stride], from[3 * stride]};
      __builtin_memcpy(to + id * kChunk + column, four, sizeof(four));
    }
  }
  for (; column < columns; ++column) {
    for (int id = 0; id < ids; ++id) to[id * kChunk + column] = first[column * stride + id * weights.rowStride];
  }
}

// Columns [begin, end) of some ids as float32, in rows of kChunk, with zeros up to a multiple of kLanes.
template <int kWidth, class Element>
INLINE void widen(const Weights<Element>& weights, int ids, int64_t begin, int64_t end, float* to) {
  const int64_t columns = end - begin, padded = (columns + kLanes - 1) / kLanes * kLanes;
  if constexpr (std::is_same_v<Element, float>) {
    if (weights.columnStride != 1) {
      transpose(weights, ids, begin, columns, to);
      for (int id = 0; id < ids; ++id) std::fill(to + id * kChunk + columns, to + id * kChunk + padded, 0.0f);
      return;
    }
  }
  const Element* from = weights.first + begin;
  for (int id = 0; id < ids; ++id, from += weights.rowStride, to += kChunk) {
    int64_t column = 0;
    for (; column + kWidth <= columns; column += kWidth) {
      Vectors<kWidth>::store(Vectors<kWidth>::load(from + column), to + column);
      if (column % (64 / sizeof(Element)) == 0) {
        __builtin_prefetch(from + column + kCpuTileIds * weights.rowStride, 0, 2);
      }
    }
    for (; column < padded; column += kWidth) {
      Element rest[kWidth] = {};
      for (int64_t i = 0; i < kWidth && column + i < columns; ++i) rest[i] = from[column + i];
      Vectors<kWidth>::store(Vectors<kWidth>::load(rest), to + column);
    }
  }
}

struct Tile {
  LmHeadTopKArgs args;  // `weight` set to the tile's first id
  int ids;
  const float* hidden;  // padded with zeros to a multiple of kLanes
  int64_t hiddenStride;
  int rows;
  CacheLine* scratch;
  float* results;  // [rows, kCpuTileIds], rows of resultStride
  int64_t resultStride;
};

// Sums of a tile, then what `widen` writes.
constexpr int64_t scratchFor(int rows) { return rows * kCpuTileIds + kCpuTileIds * kChunk / kLanes; }

template <int kWidth, class Element>
INLINE void multiplyTile(const Tile& tile) {
  Weights<Element> weights{static_cast<const Element*>(tile.args.weight), tile.args.weightRowStride,
                           std::is_same_v<Element, float> ? tile.args.weightColumnStride : 1};
  constexpr int kRowBlock = kWidth == 16 ? 4 : 2;
  // For few rows weights are widened in registers, again for each block of rows; for more, once, to a buffer.
  constexpr int kFewRows = kWidth / 2;
  const int64_t size = tile.args.hiddenSize;
  const bool inRegisters = tile.rows <= kFewRows && size % kLanes == 0 && weights.columnStride == 1;
  CacheLine* sums = tile.scratch;
  CacheLine* buffer = sums + tile.rows * kCpuTileIds;
  // So few that what is widened stays in the first cache beside hidden; where ids lie side by side, a whole line of
  // them.
  const int step = weights.columnStride == 1 ? 8 : kCpuTileIds;
  for (int id = 0; id < tile.ids; id += step, weights.first += step * weights.rowStride) {
    const int ids = std::min(step, tile.ids - id);
    for (int64_t begin = 0; begin < size; begin += kChunk) {
      const int64_t end = std::min(begin + kChunk, size);
      const float* hidden = tile.hidden + begin;
      if (inRegisters) {
        addPart<kWidth, kRowBlock, true>(Part<Element>{weights.first + begin, weights.rowStride, ids, hidden,
                                                       tile.hiddenStride, tile.rows, end - begin, begin == 0,
                                                       sums + id});
      } else {
        widen<kWidth>(weights, ids, begin, end, buffer->floats);
        addPart<kWidth, kRowBlock, false>(Part<float>{buffer->floats, kChunk, ids, hidden, tile.hiddenStride, tile.rows,
                                                      end - begin, begin == 0, sums + id});
      }
    }
  }
}

// What is in the lanes of sums [rows, kCpuTileIds], added up in halves: lanes i and i + 8, i and i + 4, and so on.
void addLanes(const Tile& tile) {
  using Four = Vectors<4>;
  for (int i = 0; i < tile.rows * kCpuTileIds; ++i) {
    const float* lanes = tile.scratch[i].floats;
    const Four::Floats four =
        (Four::load(lanes) + Four::load(lanes + 8)) + (Four::load(lanes + 4) + Four::load(lanes + 12));
    tile.results[i / kCpuTileIds * tile.resultStride + i % kCpuTileIds] = (four[0] + four[2]) + (four[1] + four[3]);
  }
}

#if defined(__x86_64__)
// The same for 16 ids at once: each step puts the halves of two registers side by side, and adds them.
__attribute__((target("avx512f"))) void addLanesAvx512(const Tile& tile) {
  constexpr __mmask16 kAll = 0xffff;  // without a mask, g++ 12 warns of its own header
  static_assert(kCpuTileIds == 16 && kLanes == 16, "a register of registers");
  const __m512i transposed = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (int row = 0; row < tile.rows; ++row) {
    const CacheLine* sums = tile.scratch + row * kCpuTileIds;
    __m512 eights[8], fours[4], twos[2];
    for (int i = 0; i < 8; ++i) {
      const __m512 a = _mm512_load_ps(sums[2 * i].floats), b = _mm512_load_ps(sums[2 * i + 1].floats);
      eights[i] = _mm512_maskz_shuffle_f32x4(kAll, a, b, 0x44) + _mm512_maskz_shuffle_f32x4(kAll, a, b, 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      const __m512 a = eights[2 * i], b = eights[2 * i + 1];
      fours[i] = _mm512_maskz_shuffle_f32x4(kAll, a, b, 0x88) + _mm512_maskz_shuffle_f32x4(kAll, a, b, 0xdd);
    }
    for (int i = 0; i < 2; ++i) {
      const __m512 a = fours[2 * i], b = fours[2 * i + 1];
      twos[i] = _mm512_maskz_shuffle_ps(kAll, a, b, 0x44) + _mm512_maskz_shuffle_ps(kAll, a, b, 0xee);
    }
    const __m512 ones =
        _mm512_maskz_shuffle_ps(kAll, twos[0], twos[1], 0x88) + _mm512_maskz_shuffle_ps(kAll, twos[0], twos[1], 0xdd);
    _mm512_storeu_ps(tile.results + row * tile.resultStride, _mm512_maskz_permutexvar_ps(kAll, transposed, ones));
  }
}
#endif

template <int kWidth>
INLINE void multiplyTile(const Tile& tile) {
  if (tile.args.format == HeadFormat::kFloat32) {
    multiplyTile<kWidth, float>(tile);
  } else if (tile.args.format == HeadFormat::kBfloat16) {
    multiplyTile<kWidth, Bfloat16>(tile);
  } else {
    multiplyTile<kWidth, Float16>(tile);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void multiplyTileAvx512(const Tile& tile) {
  multiplyTile<16>(tile);
  addLanesAvx512(tile);
}
__attribute__((target("avx2,fma,f16c"))) void multiplyTileAvx2(const Tile& tile) {
  multiplyTile<8>(tile);
  addLanes(tile);
}
#endif
void multiplyTilePlain(const Tile& tile) {
  multiplyTile<4>(tile);
  addLanes(tile);
}

auto bestMultiplyTile() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return multiplyTileAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    return multiplyTileAvx2;
#endif
  return multiplyTilePlain;
}

class DenseMainloop final : public Mainloop {
 public:
  explicit DenseMainloop(const LmHeadTopKArgs& args)
      : args_(args), lines_((args.hiddenSize + kLanes - 1) / kLanes), hidden_(args.rows * lines_) {
    for (int64_t row = 0; row < args.rows; ++row) {
      std::copy_n(args.hidden + row * args.hiddenSize, args.hiddenSize, hidden_[row * lines_].floats);
    }
  }

  int64_t scratchLines(int rows) const override { return scratchFor(rows); }

  void sum(int64_t firstId, int ids, int64_t firstRow, int rows, CacheLine* scratch, float* sums,
           int64_t stride) const override {
    const int64_t elementBytes = args_.format == HeadFormat::kFloat32 ? 4 : 2;
    Tile tile{args_, ids, hidden_[firstRow * lines_].floats, lines_ * kLanes, rows, scratch, sums, stride};
    tile.args.weight = static_cast<const char*>(args_.weight) + firstId * args_.weightRowStride * elementBytes;
    multiplyTile_(tile);
  }

 private:
  LmHeadTopKArgs args_;
  int64_t lines_;
  std::vector<CacheLine> hidden_;
  void (*multiplyTile_)(const Tile&) = bestMultiplyTile();
};

}  // namespace

std::unique_ptr<Mainloop> makeDenseMainloop(const LmHeadTopKArgs& args) {
  return std::make_unique<DenseMainloop>(args);
}

}  // namespace lm_head
