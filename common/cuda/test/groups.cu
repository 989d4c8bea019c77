// half, bfloat16 and cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
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

// The sum over any group, in shared memory.
__device__ int sum_of(const cg::thread_group& group, int* words, int value) {
  const unsigned rank = group.thread_rank();
  for (unsigned half = group.size() / 2; half > 0; half /= 2) {
    words[rank] = value;
    group.sync();
    if (rank < half) value += words[rank + half];
    group.sync();
  }
  return value;
}

__global__ void partitions(const int* in, int* out) {  // 128 threads
  __shared__ cg::block_tile_memory<128> memory;
  __shared__ int words[128];
  const auto block = cg::this_thread_block(memory);
  const int rank = static_cast<int>(block.thread_rank());
  const auto warp = cg::tiled_partition<32>(block);
  const auto labeled = cg::labeled_partition(warp, rank % 5);
  if (labeled.thread_rank() == 0) atomicAdd(out + rank % 5, static_cast<int>(labeled.size()));
  const auto binary = cg::binary_partition(warp, rank % 4 == 0);
  const int of_binary = cg::reduce(binary, rank, cg::plus<int>());
  if (binary.thread_rank() == 0) atomicAdd(out + 5 + (rank % 4 == 0), of_binary);
  const auto pair = cg::tiled_partition<64>(block);  // a tile of warps
  const int of_pair = cg::reduce(pair, rank, cg::plus<int>());
  if (pair.thread_rank() == 0) out[7 + pair.meta_group_rank()] = of_pair;
  if (pair.shfl(rank, 40) != 40 + 64 * static_cast<int>(pair.meta_group_rank()))
    atomicAdd(out + 15, 1);
  const int of_block = sum_of(block, words, rank);
  if (rank == 0) out[9] = of_block;
  block.sync();
  const auto four = cg::tiled_partition(block, 4);
  const int of_four = sum_of(four, words + rank - four.thread_rank(), rank);
  if (rank == 4) out[10] = of_four;
  if (cg::inclusive_scan(warp, 1) != warp.thread_rank() + 1) atomicAdd(out + 15, 1);
  if (cg::exclusive_scan(warp, 2) != 2 * warp.thread_rank()) atomicAdd(out + 15, 1);
  block.sync();
  cg::memcpy_async(block, words, in, sizeof words);
#ifndef WRONG
  cg::wait(block);
#endif
  out[16 + rank] = words[127 - rank];  // expect read_before_wait // expect read_before_barrier
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
  cudaDeviceSynchronize();
  check(__low2float(pairs[6]) == 2 * 2.25f + 0.5f && __high2float(pairs[6]) == 4.5f + 2.25f,
        "half2");
  bfloats<<<1, 64>>>(floats, bfloats_out);
  cudaDeviceSynchronize();
  check(__bfloat162float(bfloats_out[0]) == 2 && __bfloat162float(bfloats_out[1]) == 2.0f &&
            __bfloat162float(bfloats_out[3]) == 2.03125f,
        "bfloat16");
  ints[64] = 0;
  tiles<<<1, 64>>>(ints);
  cudaDeviceSynchronize();
  check(ints[0] == 28 && ints[63] == (56 + 63) * 4 + 7000, "tiles");
  check(ints[64] == 22, "coalesced threads");
  int *numbers, *sums;
  cudaMallocManaged(&numbers, 128 * sizeof(int));
  cudaMallocManaged(&sums, 144 * sizeof(int));
  cudaMemset(sums, 0, 144 * sizeof(int));
  for (int i = 0; i < 128; ++i) numbers[i] = 3 * i;
  partitions<<<1, 128>>>(numbers, sums);
  cudaDeviceSynchronize();
  check(sums[0] == 26 && sums[2] == 26 && sums[3] == 25, "labeled partition");
  check(sums[6] == 32 * 62 && sums[5] == 127 * 64 - 32 * 62, "binary partition");
  check(sums[7] == 63 * 32 && sums[8] == 127 * 64 - 63 * 32, "tiles of two warps");
  check(sums[9] == 127 * 64 && sums[10] == 22, "any group");
  check(sums[15] == 0, "scans");
#ifndef WRONG
  check(sums[16] == 381 && sums[143] == 0, "memcpy_async");
#endif
  for (int i = 0; i < 10; ++i) ints[i] = 0;
  int* pointer = ints;
  void* arguments[] = {&pointer};
  const cudaError_t error = cudaLaunchCooperativeKernel(rounds, dim3(5), dim3(64), arguments);
  cudaDeviceSynchronize();
  check(error == cudaSuccess && ints[5] == 31, "grid sync");
  if (failures == 0) printf("all right\n");
  return failures;
}
