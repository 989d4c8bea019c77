// half, bfloat16 and cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdio>

namespace cg = cooperative_groups;

static int failures = 0;
static void check(bool good, const char* what) {
  if (!good) {
    printf("wrong: %s\n", what);
    ++failures;
  }
}

__global__ void halves(const half* in, half2* out) {
  const half x = in[threadIdx.x];
  half2 pair = __halves2half2(x, __float2half(2.0f));
  pair = __hfma2(pair, pair, __float2half2_rn(0.5f));
  pair += __half2half2(__hmul(x, x));
  out[threadIdx.x] = pair;
}

__global__ void bfloats(const float* in, __nv_bfloat16* out) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(in[threadIdx.x], 1.0f);
  out[threadIdx.x] = __hadd(pair.x, pair.y);
}

__global__ void tiles(int* out) {
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  const int sum = cg::reduce(tile, static_cast<int>(block.thread_rank()), cg::plus<int>());
  out[block.thread_rank()] = sum + 1000 * tile.meta_group_rank();
  if (tile.any(tile.thread_rank() == 3)) tile.sync();
  if (block.thread_rank() % 3 == 0) {
    const auto active = cg::coalesced_threads();
    if (active.thread_rank() == 0) atomicAdd(out + 64, static_cast<int>(active.size()));
  }
}

__global__ void rounds(int* data) {  // each block needs what all blocks wrote in the round before
  const auto grid = cg::this_grid();
  int* from = data;
  int* to = data + gridDim.x;
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == 0) {
      int sum = 1;
      for (int i = 0; i < static_cast<int>(gridDim.x); ++i) sum += from[i];
      to[blockIdx.x] = sum;
    }
    grid.sync();
    int* const other = from;
    from = to;
    to = other;
  }
}

int main() {
  half* in;
  half2* pairs;
  float* floats;
  __nv_bfloat16* bfloats_out;
  int* ints;
  cudaMallocManaged(&in, 64 * sizeof(half));
  cudaMallocManaged(&pairs, 64 * sizeof(half2));
  cudaMallocManaged(&floats, 64 * sizeof(float));
  cudaMallocManaged(&bfloats_out, 64 * sizeof(__nv_bfloat16));
  cudaMallocManaged(&ints, 65 * sizeof(int));
  for (int i = 0; i < 64; ++i) {
    in[i] = __float2half(i * 0.25f);
    floats[i] = 1 + i / 128.0f;
  }
  halves<<<1, 64>>>(in, pairs);
  check(__low2float(pairs[6]) == 2 * 2.25f + 0.5f && __high2float(pairs[6]) == 4.5f + 2.25f,
        "half2");
  bfloats<<<1, 64>>>(floats, bfloats_out);
  check(__bfloat162float(bfloats_out[0]) == 2 && __bfloat162float(bfloats_out[1]) == 2.0f &&
            __bfloat162float(bfloats_out[3]) == 2.03125f,
        "bfloat16");
  ints[64] = 0;
  tiles<<<1, 64>>>(ints);
  check(ints[0] == 28 && ints[63] == (56 + 63) * 4 + 7000, "tiles");
  check(ints[64] == 22, "coalesced threads");
  for (int i = 0; i < 10; ++i) ints[i] = 0;
  int* pointer = ints;
  void* arguments[] = {&pointer};
  const cudaError_t error = cudaLaunchCooperativeKernel(rounds, dim3(5), dim3(64), arguments);
  check(error == cudaSuccess && ints[5] == 31, "grid sync");
  if (failures == 0) printf("all right\n");
  return failures;
}
