#include "pack_binary_cpu.h"

#include <algorithm>

#include "cpu_math.h"
#include "parallel.h"

namespace lm_head {
namespace {

constexpr int64_t kTileIds = BinaryLayout::kTileIds;

}  // namespace

void packBinaryCpu(const PackBinaryArgs& args) {
  const BinaryLayout& layout = args.layout;
  const int64_t tiles = BinaryLayout::tiles(args.vocabSize), words = layout.words(), groups = layout.groups();
  parallelFor(threadsFor(tiles * layout.tileWords()), tiles, [&](int, int64_t begin, int64_t end) {
    const KeepDenormals keepDenormals;
    for (int64_t tile = begin; tile < end; ++tile) {
      uint32_t* packed = args.packed + tile * layout.tileWords();
      uint16_t* halves = reinterpret_cast<uint16_t*>(packed);
      std::fill(packed, packed + layout.tileWords(), 0u);
      const int64_t firstId = tile * kTileIds;
      for (int id = 0; id < std::min(kTileIds, args.vocabSize - firstId); ++id) {
        const uint32_t* bits = args.bits + (firstId + id) * words;
        const float* scales = args.scales + (firstId + id) * groups;
        for (int64_t word = 0; word < words; ++word) packed[layout.wordOffset(id, word)] = bits[word];
        for (int64_t group = 0; group < groups; ++group)
          halves[layout.scaleOffset(id, group)] = roundToFloat16(scales[group]);
      }
    }
  });
}

void unpackBinaryCpu(const UnpackBinaryArgs& args) {
  const BinaryLayout& layout = args.layout;
  const int64_t words = layout.words(), groups = layout.groups();
  parallelFor(threadsFor(args.vocabSize * words), args.vocabSize, [&](int, int64_t begin, int64_t end) {
    const KeepDenormals keepDenormals;
    for (int64_t id = begin; id < end; ++id) {
      const uint32_t* packed = args.packed + id / kTileIds * layout.tileWords();
      const uint16_t* halves = reinterpret_cast<const uint16_t*>(packed);
      const int place = static_cast<int>(id % kTileIds);
      for (int64_t word = 0; word < words; ++word)
        args.bits[id * words + word] = packed[layout.wordOffset(place, word)];
      for (int64_t group = 0; group < groups; ++group)
        args.scales[id * groups + group] = widenFloat16(halves[layout.scaleOffset(place, group)]);
    }
  });
}

}  // namespace lm_head
