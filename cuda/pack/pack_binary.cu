#include <cuda_fp16.h>

#include <algorithm>

#include "pack_binary.h"

namespace lm_head {
namespace {

constexpr int kThreads = 256;

// A block a tile, a thread a word or scale; both reads and writes of 16 neighbours are within 64 bytes. What pads a row
// of bits or scales is written, too, as zeros.
__global__ void packBinaryKernel(PackBinaryArgs args) {
  const BinaryLayout& layout = args.layout;
  const int64_t words = layout.words(), paddedWords = layout.blocks() * BinaryLayout::kBlockWords;
  const int64_t groups = layout.groups(), paddedGroups = layout.quads() * BinaryLayout::kQuadGroups;
  for (int64_t tile = blockIdx.x; tile < BinaryLayout::tiles(args.vocabSize); tile += gridDim.x) {
    const int64_t firstId = tile * BinaryLayout::kTileIds;
    uint32_t* packed = args.packed + tile * layout.tileWords();
    for (int64_t i = threadIdx.x; i < BinaryLayout::kTileIds * paddedWords; i += kThreads) {
      const int64_t id = i / paddedWords, word = i % paddedWords;
      const bool real = firstId + id < args.vocabSize && word < words;
      packed[layout.wordOffset(static_cast<int>(id), word)] = real ? args.bits[(firstId + id) * words + word] : 0;
    }
    uint16_t* halves = reinterpret_cast<uint16_t*>(packed);
    for (int64_t i = threadIdx.x; i < BinaryLayout::kTileIds * paddedGroups; i += kThreads) {
      const int64_t id = i / paddedGroups, group = i % paddedGroups;
      const bool real = firstId + id < args.vocabSize && group < groups;
      const float scale = real ? args.scales[(firstId + id) * groups + group] : 0.0f;
      halves[layout.scaleOffset(static_cast<int>(id), group)] = __half_as_ushort(__float2half_rn(scale));
    }
  }
}

__global__ void unpackBinaryKernel(UnpackBinaryArgs args) {
  const BinaryLayout& layout = args.layout;
  const int64_t words = layout.words(), groups = layout.groups();
  for (int64_t tile = blockIdx.x; tile < BinaryLayout::tiles(args.vocabSize); tile += gridDim.x) {
    const int64_t firstId = tile * BinaryLayout::kTileIds;
    const int64_t ids = min(static_cast<int64_t>(BinaryLayout::kTileIds), args.vocabSize - firstId);
    const uint32_t* packed = args.packed + tile * layout.tileWords();
    for (int64_t i = threadIdx.x; i < ids * words; i += kThreads) {
      args.bits[firstId * words + i] = packed[layout.wordOffset(static_cast<int>(i / words), i % words)];
    }
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(packed);
    for (int64_t i = threadIdx.x; i < ids * groups; i += kThreads) {
      const uint16_t half = halves[layout.scaleOffset(static_cast<int>(i / groups), i % groups)];
      args.scales[firstId * groups + i] = __half2float(__ushort_as_half(half));
    }
  }
}

template <class Args>
cudaError_t launchByTile(void (*kernel)(Args), const Args& args, cudaStream_t stream) {
  const int64_t tiles = BinaryLayout::tiles(args.vocabSize);
  if (tiles == 0) return cudaSuccess;
  kernel<<<static_cast<unsigned>(std::min<int64_t>(tiles, 1 << 20)), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launchPackBinary(const PackBinaryArgs& args, cudaStream_t stream) {
  return launchByTile(packBinaryKernel, args, stream);
}

cudaError_t launchUnpackBinary(const UnpackBinaryArgs& args, cudaStream_t stream) {
  return launchByTile(unpackBinaryKernel, args, stream);
}

}  // namespace lm_head
