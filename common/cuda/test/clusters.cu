// options: --arch sm_90
// Shared memory of another block of the cluster, and copies to several blocks.
#include <cooperative_groups.h>

#include <cstdint>
#include <cstdio>

namespace cg = cooperative_groups;

#include "wrong.cuh"

constexpr int n = 32;

__global__ void __cluster_dims__(2) reads_neighbour(const int* in, int* out) {
  __shared__ int tile[n];
  const auto cluster = cg::this_cluster();
  const int i = threadIdx.x;
  tile[i] = in[blockIdx.x * n + i];  // expect cluster_race
  if (wrong) __syncthreads();
  if (!wrong) cluster.sync();
  const int* other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
  out[blockIdx.x * n + i] = other[n - 1 - i];
  cluster.sync();
}

__global__ void __cluster_dims__(2, 1, 1) ends_early(const int* in, int* out) {
  __shared__ int tile[n];
  const auto cluster = cg::this_cluster();
  const int i = threadIdx.x;
  tile[i] = in[blockIdx.x * n + i];
  cluster.sync();
  const int* other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
  out[blockIdx.x * n + i] = other[n - 1 - i];  // expect cluster_race
  if (!wrong) cluster.sync();
}

__global__ void leaves_cluster(int* out) {  // clusters of 2 blocks
  __shared__ int tile[n];
  const auto cluster = cg::this_cluster();
  tile[threadIdx.x] = threadIdx.x;
  cluster.sync();
  const int* other = cluster.map_shared_rank(tile + threadIdx.x, wrong ? 2 : 1);
  out[blockIdx.x * n + threadIdx.x] = *other;  // expect out_of_bounds
  cluster.sync();
}

// Bins of all blocks, half of them in each block.
__global__ void __cluster_dims__(2) histogram(const int* in, int* out) {
  __shared__ int bins[n / 2];
  const auto cluster = cg::this_cluster();
  const int i = threadIdx.x;
  if (i < n / 2) bins[i] = 0;
  cluster.sync();
  const int bin = in[blockIdx.x * n + i] % n;
  atomicAdd(cluster.map_shared_rank(bins + bin % (n / 2), bin / (n / 2)), 1);
  cluster.sync();
  if (i < n / 2) out[cluster.block_rank() * (n / 2) + i] = bins[i];
}

__device__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ uint32_t in_block(uint32_t address, int rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
__device__ void wait(uint32_t mbarrier, int parity) {
  asm volatile(
      "{\n .reg .pred done;\n"
      "LOOP_%=:\n mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      " @!done bra LOOP_%=;\n}" ::"r"(mbarrier),
      "r"(parity)
      : "memory");
}

#define ARRIVE(mbarrier) \
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mbarrier))

// Block 0 copies each of the tiles to both blocks, after both have read the tile before.
__global__ void __cluster_dims__(2) multicast(const int* in, int* out, int tiles) {
  __shared__ alignas(128) int tile[n];
  __shared__ alignas(8) uint64_t barriers[2];
  const auto cluster = cg::this_cluster();
  const uint32_t full = shared_address(&barriers[0]), empty = shared_address(&barriers[1]);
  const int i = threadIdx.x;
  if (i == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(empty));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  cluster.sync();
  int sum = 0;
  for (int t = 0; t < tiles; ++t) {
    if (i == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full),
                   "r"(n * 4));
      if (cluster.block_rank() == 0) {
        if (t > 0) wait(empty, (t - 1) % 2);
        asm volatile(  // expect overwrite_while_read
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(tile)),
            "l"(in + t * n), "r"(n * 4), "r"(full), "h"(static_cast<uint16_t>(3)));
      }
    }
    wait(full, t % 2);
    const uint32_t empty_of_first = in_block(empty, 0);
    if (wrong && i == 0) ARRIVE(empty_of_first);
    sum += tile[n - 1 - i];
    __syncwarp();
    if (!wrong && i == 0) ARRIVE(empty_of_first);
  }
  out[blockIdx.x * n + i] = sum;
  cluster.sync();
}

// Each block stores to the next one, through PTX.
__global__ void __cluster_dims__(4) passes_on(int* out) {
  __shared__ int tile[n];
  const auto cluster = cg::this_cluster();
  uint32_t owner;
  const uint32_t there =
      in_block(shared_address(tile + threadIdx.x), (cluster.block_rank() + 1) % 4);
  asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(owner) : "r"(there));
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(100 * owner + threadIdx.x));
  cluster.sync();
  out[blockIdx.x * n + threadIdx.x] = tile[threadIdx.x];
}

int main() {
  int *in, *out, failures = 0;
  cudaMallocManaged(&in, 4 * n * sizeof(int));
  cudaMallocManaged(&out, 4 * n * sizeof(int));
  const auto check = [&](const char* what, auto wanted, int count) {
    const cudaError_t error = cudaDeviceSynchronize();
    int bad = error != cudaSuccess;
    for (int i = 0; i < count; ++i) bad += out[i] != wanted(i);
    if (bad != 0) printf("%s: %d wrong, %s\n", what, bad, cudaGetErrorString(error));
    failures += bad;
  };
  for (int i = 0; i < 4 * n; ++i) in[i] = i * i % 101;
  const auto mirrored = [&](int i) { return in[2 * n - 1 - i]; };
  reads_neighbour<<<2, n>>>(in, out);
  check("neighbour", mirrored, 2 * n);
  ends_early<<<2, n>>>(in, out);
  check("end", mirrored, 2 * n);
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {2, 1, 1};
  config.gridDim = 2;
  config.blockDim = n;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, leaves_cluster, out);
  check(
      "rank", [](int i) { return i % n; }, 2 * n);
  histogram<<<2, n>>>(in, out);
  const auto count = [&](int bin) {
    int sum = 0;
    for (int i = 0; i < 2 * n; ++i) sum += in[i] % n == bin;
    return sum;
  };
  check("histogram", count, n);
  multicast<<<2, n>>>(in, out, 4);
  const auto sum = [&](int i) {
    int all = 0;
    for (int t = 0; t < 4; ++t) all += in[t * n + n - 1 - i % n];
    return all;
  };
  check("multicast", sum, 2 * n);
  passes_on<<<4, n>>>(out);
  check(
      "st.shared::cluster", [](int i) { return 100 * (i / n) + i % n; }, 4 * n);
  if (wrong) failures = 0;  // the emulator says so
  printf("%d wrong\n", failures);
  return failures;
}
