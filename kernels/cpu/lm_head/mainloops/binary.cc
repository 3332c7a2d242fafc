// Binary sums on the CPU: the bit planes of quantized hidden, and + popcount, 64 columns at a time, for a tile of ids
// side by side. Bit for bit the arithmetic of the plain reference; this file is compiled without fused multiply-adds.
#include <algorithm>
#include <vector>

#include "../../../core/binary_layout.h"
#include "../../quantize_activations_cpu.h"
#include "mainloop.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define FOR_EACH_CPU __attribute__((target_clones("popcnt", "default")))
#else
#define FOR_EACH_CPU
#endif

namespace lm_head {
namespace {

constexpr int kPlanes = 8;
constexpr int kIds = kCpuTileIds;
static_assert(BinaryLayout::kTileIds % kIds == 0, "ids that are scored together lie in one tile");

// A group's words are read two at a time; the last of an odd number stands alone.
int64_t pairsFor(int64_t groupSize) { return (groupSize + 63) / 64; }

// sums[group][id] = sum of q over the group's columns whose bit is set, from bits [groups, pairs, kIds] and planes
// [groups, pairs, kPlanes]. Plane 7 is the sign of two's complement and counts negative.
FOR_EACH_CPU void sumGroups(const uint64_t* bits, const uint64_t* planes, int64_t groups, int64_t pairs,
                            int32_t* sums) {
  for (int64_t group = 0; group < groups; ++group, bits += pairs * kIds, planes += pairs * kPlanes, sums += kIds) {
    for (int id = 0; id < kIds; ++id) {
      int64_t counts[kPlanes] = {};
      for (int64_t pair = 0; pair < pairs; ++pair) {
        const uint64_t own = bits[pair * kIds + id];
        for (int p = 0; p < kPlanes; ++p) counts[p] += __builtin_popcountll(own & planes[pair * kPlanes + p]);
      }
      int64_t sum = -128 * counts[7];
      for (int p = 0; p < 7; ++p) sum += counts[p] * (1 << p);
      sums[id] = static_cast<int32_t>(sum);
    }
  }
}

#if defined(__x86_64__)
// The same, eight ids at once.
__attribute__((target("avx512f,avx512vpopcntdq"))) void sumGroupsAvx512(const uint64_t* bits, const uint64_t* planes,
                                                                        int64_t groups, int64_t pairs, int32_t* sums) {
  constexpr int kTogether = 8;
  typedef int32_t Sums __attribute__((vector_size(kTogether * sizeof(int32_t))));
  for (int64_t group = 0; group < groups; ++group, bits += pairs * kIds, planes += pairs * kPlanes, sums += kIds) {
    for (int first = 0; first < kIds; first += kTogether) {
      __m512i counts[kPlanes] = {};
      for (int64_t pair = 0; pair < pairs; ++pair) {
        const __m512i own = _mm512_loadu_si512(bits + pair * kIds + first);
        for (int p = 0; p < kPlanes; ++p) {
          const __m512i plane = _mm512_set1_epi64(static_cast<int64_t>(planes[pair * kPlanes + p]));
          counts[p] += _mm512_popcnt_epi64(own & plane);
        }
      }
      __m512i sum = -(counts[7] << 7);
      for (int p = 0; p < 7; ++p) sum += counts[p] << p;
      const Sums narrow = __builtin_convertvector(sum, Sums);
      std::memcpy(sums + first, &narrow, sizeof(narrow));
    }
  }
}
#endif

auto bestSumGroups() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vpopcntdq")) return sumGroupsAvx512;
#endif
  return sumGroups;
}

struct QuantizedRow {
  std::vector<uint64_t> planes;
  std::vector<int32_t> groupSums;  // of q
};

class BinaryMainloop final : public Mainloop {
 public:
  explicit BinaryMainloop(const LmHeadTopKArgs& args)
      : args_(args),
        layout_{args.hiddenSize, args.groupSize},
        groups_(layout_.groups()),
        pairs_(pairsFor(args.groupSize)),
        scales_(args.rows),
        rows_(args.rows) {
    for (int64_t word = 0; word < layout_.words(); ++word) {
      const int64_t first = layout_.wordOffset(0, word);
      words_.push_back({first, layout_.wordOffset(1, word) - first});
    }
    std::vector<int32_t> q(args.hiddenSize);
    for (int64_t row = 0; row < args.rows; ++row) {
      const float* hidden = args.hidden + row * args.hiddenSize;
      if (args.hiddenScale == nullptr) {
        scales_[row] = quantizeRow(hidden, args.hiddenSize, q.data());
      } else {
        scales_[row] = args.hiddenScale[row];
        std::copy(hidden, hidden + args.hiddenSize, q.begin());
      }
      cutIntoPlanes(q.data(), rows_[row]);
    }
  }

  const float* rowScales() const override { return scales_.data(); }

  // For each group: bits [pairs, kIds] of 8 bytes, scales [kIds] and sums [kIds] of 4.
  int64_t scratchLines(int) const override { return groups_ * (2 * pairs_ + 2); }

  void sum(int64_t firstId, int, int64_t firstRow, int rows, CacheLine* scratch, float* results,
           int64_t stride) const override {
    uint64_t* bits = reinterpret_cast<uint64_t*>(scratch);
    float* scales = scratch[groups_ * 2 * pairs_].floats;
    int32_t* positive = reinterpret_cast<int32_t*>(scales + groups_ * kIds);
    const uint32_t* tile =
        static_cast<const uint32_t*>(args_.weight) + firstId / BinaryLayout::kTileIds * layout_.tileWords();
    const int place = static_cast<int>(firstId % BinaryLayout::kTileIds);
    loadBits(tile, place, bits);
    loadScales(tile, place, scales);
    for (int r = 0; r < rows; ++r) {
      const QuantizedRow& row = rows_[firstRow + r];
      sumGroups_(bits, row.planes.data(), groups_, pairs_, positive);
      float sums[4][kIds] = {};
      for (int64_t group = 0; group < groups_; ++group) {
        for (int i = 0; i < kIds; ++i) {
          const int32_t dot = 2 * positive[group * kIds + i] - row.groupSums[group];
          sums[group % 4][i] += static_cast<float>(dot) * scales[group * kIds + i];
        }
      }
      float* rowResults = results + r * stride;
      for (int i = 0; i < kIds; ++i) rowResults[i] = (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]);
    }
  }

 private:
  // Where a word of the ids of a tile lies: evenly spaced.
  struct WordOfIds {
    int64_t first;
    int64_t stride;
  };

  // Of the kIds ids from place `place` of the tile on; those behind the vocabulary are there as zeros.
  void loadBits(const uint32_t* tile, int place, uint64_t* bits) const {
    const int64_t words = args_.groupSize / 32;
    for (int64_t group = 0; group < groups_; ++group) {
      for (int64_t pair = 0; pair < pairs_; ++pair, bits += kIds) {
        const WordOfIds* from = words_.data() + group * words + 2 * pair;
        const uint32_t* low = tile + from->first + place * from->stride;
        for (int i = 0; i < kIds; ++i) bits[i] = low[i * from->stride];
        if (2 * pair + 1 == words) continue;
        const uint32_t* high = tile + from[1].first + place * from[1].stride;
        for (int i = 0; i < kIds; ++i) bits[i] |= static_cast<uint64_t>(high[i * from[1].stride]) << 32;
      }
    }
  }

  void loadScales(const uint32_t* tile, int place, float* scales) const {
    for (int64_t group = 0; group < groups_; ++group, scales += kIds) {
      const uint16_t* from = reinterpret_cast<const uint16_t*>(tile) + layout_.scaleOffset(place, group);
      for (int i = 0; i < kIds; ++i) scales[i] = widenFloat16(from[i * BinaryLayout::kQuadGroups]);
    }
  }

  void cutIntoPlanes(const int32_t* q, QuantizedRow& row) const {
    row.planes.assign(groups_ * pairs_ * kPlanes, 0);
    row.groupSums.assign(groups_, 0);
    for (int64_t i = 0; i < args_.hiddenSize; ++i) {
      const int64_t group = i / args_.groupSize, column = i % args_.groupSize;
      row.groupSums[group] += q[i];
      uint64_t* planes = row.planes.data() + (group * pairs_ + column / 64) * kPlanes;
      for (int plane = 0; plane < kPlanes; ++plane) {
        planes[plane] |= static_cast<uint64_t>((q[i] >> plane) & 1) << (column % 64);
      }
    }
  }

  LmHeadTopKArgs args_;
  BinaryLayout layout_;
  int64_t groups_;
  int64_t pairs_;  // of a group
  std::vector<WordOfIds> words_;
  std::vector<float> scales_;  // of rows
  std::vector<QuantizedRow> rows_;
  void (*sumGroups_)(const uint64_t*, const uint64_t*, int64_t, int64_t, int32_t*) = bestSumGroups();
};

}  // namespace

std::unique_ptr<Mainloop> makeBinaryMainloop(const LmHeadTopKArgs& args) {
  return std::make_unique<BinaryMainloop>(args);
}

}  // namespace lm_head
