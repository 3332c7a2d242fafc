#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "pack_half.h"

namespace lm_head {
namespace {

__device__ uint16_t roundToHalf(float x, bool bfloat16) {
  return bfloat16 ? __bfloat16_as_ushort(__float2bfloat16_rn(x)) : __half_as_ushort(__float2half_rn(x));
}

constexpr int kTile = 32;

// Through a tile in shared memory, so that reads run along the input's contiguous axis and writes along the output's.
__global__ void packHalfKernel(PackHalfArgs args) {
  __shared__ uint16_t tile[kTile][kTile + 1];
  const bool rowsFirst = args.rowStride < args.columnStride;
  const int64_t tilesAcross = (args.paddedColumns + kTile - 1) / kTile;
  const int64_t tiles = tilesAcross * ((args.rows + kTile - 1) / kTile);
  for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const int64_t firstRow = index / tilesAcross * kTile, firstColumn = index % tilesAcross * kTile;
    for (int i = threadIdx.y; i < kTile; i += blockDim.y) {
      const int r = rowsFirst ? threadIdx.x : i, c = rowsFirst ? i : threadIdx.x;
      const int64_t row = firstRow + r, column = firstColumn + c;
      const bool real = row < args.rows && column < args.columns;
      tile[r][c] = real ? roundToHalf(args.x[row * args.rowStride + column * args.columnStride], args.bfloat16) : 0;
    }
    __syncthreads();
    for (int i = threadIdx.y; i < kTile; i += blockDim.y) {
      const int64_t row = firstRow + i, column = firstColumn + threadIdx.x;
      if (row < args.rows && column < args.paddedColumns)
        args.packed[row * args.paddedColumns + column] = tile[i][threadIdx.x];
    }
    __syncthreads();
  }
}

}  // namespace

cudaError_t launchPackHalf(const PackHalfArgs& args, cudaStream_t stream) {
  const int64_t tiles = (args.paddedColumns + kTile - 1) / kTile * ((args.rows + kTile - 1) / kTile);
  if (tiles == 0) return cudaSuccess;
  packHalfKernel<<<static_cast<unsigned>(std::min<int64_t>(tiles, 1 << 20)), dim3(kTile, 8), 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace lm_head
