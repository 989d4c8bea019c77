// options: --arch sm_90
// Copies from the shared memory of one block to that of another block of its cluster:
// cp.async.bulk.shared::cluster.shared::cta. Each mistake is in a kernel of its own.
#include <cooperative_groups.h>

#include <cstdint>
#include <cstdio>

namespace cg = cooperative_groups;

#include "wrong.cuh"

constexpr int n = 32;

__device__ uint32_t address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ uint32_t in_block(uint32_t address, int rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
// Macros, so that a report names the line that uses them.
#define WAIT(mbarrier, parity)                                                                \
  asm volatile(                                                                               \
      "{ .reg .pred done;\n"                                                                  \
      "LOOP_%=:\n mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n" \
      " @!done bra LOOP_%=;\n}" ::"r"(mbarrier),                                              \
      "r"(parity)                                                                             \
      : "memory")
#define INIT(mbarrier)                                                    \
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mbarrier)); \
  asm volatile("fence.mbarrier_init.release.cluster;")
#define EXPECT(mbarrier, bytes) \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes))
#define COPY(to, from, bytes, mbarrier)                                                         \
  asm volatile(                                                                                 \
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, " \
      "[%3];" ::"r"(to),                                                                        \
      "r"(from), "r"(bytes), "r"(mbarrier)                                                      \
      : "memory")
#define FENCE asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

// Tiles go around the blocks of the cluster. After `rounds` steps, each block has the tile of the
// block that is `rounds` before it. A block overwrites its tile after the next one has it.
__global__ void ring(const int* in, int* out, int rounds) {
  __shared__ alignas(16) int tiles[2][n];
  __shared__ uint64_t full;
  const auto cluster = cg::this_cluster();
  const int i = threadIdx.x, next = (cluster.block_rank() + 1) % cluster.num_blocks();
  if (i == 0) {
    INIT(address(&full));
  }
  tiles[0][i] = in[blockIdx.x * n + i];
  for (int round = 0; round < rounds; ++round) {
    FENCE;
    if (i == 0) EXPECT(address(&full), n * 4);
    cluster.sync();
    if (i == 0)
      COPY(in_block(address(tiles[(round + 1) % 2]), next), address(tiles[round % 2]), n * 4,
           in_block(address(&full), next));
    WAIT(address(&full), round % 2);
  }
  out[blockIdx.x * n + i] = tiles[rounds % 2][i];
  cluster.sync();
}

enum Mistake { kOverwrites, kUnfenced, kReadsEarly, kEndsEarly, kExpectsMore, kOtherBlock, kOdd };

// Block 0 sends a tile to block 1.
template <Mistake mistake>
__global__ void __cluster_dims__(2) sends(const int* in, int* out) {
  __shared__ alignas(16) int mine[n], theirs[n];
  __shared__ uint64_t full;
  const auto cluster = cg::this_cluster();
  const int i = threadIdx.x, rank = cluster.block_rank();
  if (i == 0) {
    INIT(address(&full));
    if (rank == 1) EXPECT(address(&full), n * 4 + (wrong && mistake == kExpectsMore ? 16 : 0));
  }
  mine[i] = in[rank * n + i];
  if (!(wrong && mistake == kUnfenced)) FENCE;
  cluster.sync();
  const uint32_t to = in_block(address(theirs), 1);
  const uint32_t there = in_block(address(&full), wrong && mistake == kOtherBlock ? 0 : 1);
  const int bytes = wrong && mistake == kOdd ? n * 4 - 8 : n * 4;
  if (rank == 0 && i == 0) {
    if (mistake == kOtherBlock || mistake == kOdd) {
      COPY(to, address(mine), bytes, there);  // expect out_of_bounds // expect misaligned
    } else {
      COPY(to, address(mine), bytes, there);  // expect missing_proxy_fence // expect cluster_race
    }
  }
  __syncwarp();
  if (rank == 0) theirs[i] = in[i];
  if (rank == 1 && !(wrong && mistake == kReadsEarly))
    WAIT(address(&full), 0);                                      // expect transaction_mismatch
  if (rank == 0 && wrong && mistake == kOverwrites) mine[i] = 0;  // expect overwrite_while_read
  out[rank * n + i] = theirs[i];                                  // expect read_before_wait
  if (!(wrong && mistake == kEndsEarly)) cluster.sync();
}

int main() {
  int *in, *out, failures = 0;
  cudaMallocManaged(&in, 4 * n * sizeof(int));
  cudaMallocManaged(&out, 4 * n * sizeof(int));
  for (int i = 0; i < 4 * n; ++i) in[i] = i * i % 101;
  const auto check = [&](const char* what, auto wanted, int count) {
    const cudaError_t error = cudaDeviceSynchronize();
    int bad = error != cudaSuccess;
    for (int i = 0; i < count; ++i) bad += out[i] != wanted(i);
    if (bad != 0) printf("%s: %d wrong, %s\n", what, bad, cudaGetErrorString(error));
    failures += bad;
  };
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {4, 1, 1};
  config.gridDim = 4;
  config.blockDim = n;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, ring, (const int*)in, out, 7);
  check(
      "ring", [&](int i) { return in[(i / n + 1) % 4 * n + i % n]; }, 4 * n);
  const auto first = [&](int i) { return in[i % n]; };
  sends<kOverwrites><<<2, n>>>(in, out);
  check("overwrites", first, 2 * n);
  sends<kUnfenced><<<2, n>>>(in, out);
  check("fence", first, 2 * n);
  sends<kReadsEarly><<<2, n>>>(in, out);
  check("wait", first, 2 * n);
  sends<kEndsEarly><<<2, n>>>(in, out);
  check("end", first, 2 * n);
  sends<kExpectsMore><<<2, n>>>(in, out);
  check("transaction", first, 2 * n);
  sends<kOtherBlock><<<2, n>>>(in, out);
  check("mbarrier", first, 2 * n);
  sends<kOdd><<<2, n>>>(in, out);
  check("size", first, 2 * n);
  if (wrong) failures = 0;  // the emulator says so
  printf("%d wrong\n", failures);
  return failures;
}
