// y = x, with the numbers of each tile in reverse order. A tile has THREADS float4. One block.
#include <cuda_pipeline.h>

constexpr int THREADS = 128, STAGES = 2;

__global__ void reverse_tiles(const float4* x, float4* y, int tiles) {
  __shared__ float4 stage[STAGES][THREADS];
  const int t = threadIdx.x;
#error TODO(C.3): write the loop, in which the next tile is copied while this one is used
}
