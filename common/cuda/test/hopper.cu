// options: --arch sm_90a
// The hazards of Hopper's instructions, each in a separate kernel (see hazards.cu).
#include <cuda_bf16.h>

#include <cstdint>
#include <cstdio>

#include "wrong.cuh"

constexpr int n = 32;

__device__ uint32_t address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
// Macros, so that a report names the line that uses them.
#define INIT(mbarrier)                                                    \
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mbarrier)); \
  asm volatile("fence.mbarrier_init.release.cluster;")
#define WAIT(mbarrier, parity)                                                                \
  asm volatile(                                                                               \
      "{ .reg .pred done; LOOP_%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; " \
      "@!done bra LOOP_%=; }" ::"r"(mbarrier),                                                \
      "r"(parity))

#define EXPECT(mbarrier, bytes) \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes))
#define COPY(to, from, bytes, mbarrier)                                                            \
  asm volatile(                                                                                    \
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: \
          "r"(to),                                                                                 \
      "l"(from), "r"(bytes), "r"(mbarrier))

__global__ void expects_more(const int* in, int* out) {
  __shared__ __align__(128) int tile[n];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    INIT(address(&full));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    EXPECT(address(&full), n * 4 + (wrong ? 16 : 0));
    COPY(address(tile), in, n * 4, address(&full));
  }
  WAIT(address(&full), 0);  // expect transaction_mismatch
  out[threadIdx.x] = tile[threadIdx.x];
}

// A copy without a tensor map needs multiples of 16 only.
__global__ void copies_odd_bytes(const int* in, int* out) {
  __shared__ __align__(128) int tile[n + 4];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    INIT(address(&full));
    EXPECT(address(&full), n * 4);
    COPY(address(tile + 4), in, wrong ? 24 : n * 4, address(&full));  // expect misaligned
  }
  __syncthreads();
  WAIT(address(&full), 0);
  out[threadIdx.x] = tile[threadIdx.x + 4];
}

__global__ void waits_too_late(int* out) {
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    INIT(address(&full));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int phase = 0; phase < (wrong ? 2 : 1); ++phase)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(&full)));
  }
  __syncthreads();
  WAIT(address(&full), 0);  // expect wait_wrong_phase
  out[threadIdx.x] = threadIdx.x;
}

__global__ void copies_unfenced(int* out) {
  __shared__ __align__(128) int tile[n];
  tile[threadIdx.x] = threadIdx.x;
  if (!wrong) asm volatile("fence.proxy.async.shared::cta;");
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile(  // expect missing_proxy_fence
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out),
        "r"(address(tile)), "r"(n * 4));
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;");
  }
}

// d [64, 8] = a [64, 16] b [8, 16] transposed, without a swizzle, by 128 threads.
__device__ uint64_t descriptor(const void* p, uint32_t leading, uint32_t stride) {
  return address(p) >> 4 | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32;
}
#define PRODUCT(d, a, b)                                                                           \
  asm volatile(                                                                                    \
      "{ .reg .pred p; setp.ne.b32 p, %6, 0; "                                                     \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, " \
      "0; }"                                                                                       \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                             \
      : "l"(a), "l"(b), "r"(1))
#define WGMMA_WAIT asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")

template <bool bad_descriptor>
__global__ void product(float* out) {
  __shared__ __align__(128) __nv_bfloat16 a[64 * 16], b[8 * 16];
  const int t = threadIdx.x;
  for (int i = t; i < 64 * 16; i += 128) a[i] = i < 64 * 8 && i % 8 == 0 ? i / 8 % 8 : 0;  // k = 0
  b[t] = t < 64 && t % 8 == 0 ? t / 8 : 0;
  asm volatile("fence.proxy.async.shared::cta;");
  __syncthreads();
  uint64_t a_bits = descriptor(a, 1024, 128);
  if (wrong && bad_descriptor) a_bits |= 1 << 14;  // reserved
  float d[4] = {0, 0, 0, 0};
  asm volatile("wgmma.fence.sync.aligned;");
  const uint64_t b_bits = descriptor(b, 128, 128);
  PRODUCT(d, a_bits, b_bits);  // expect bad_descriptor // expect registers_in_flight
  asm volatile("wgmma.commit_group.sync.aligned;");
  if (!wrong || bad_descriptor) WGMMA_WAIT;
  const int row = 16 * (t / 32) + t % 32 / 4, column = 2 * (t % 4);
  for (int i = 0; i < 4; ++i) out[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];
  WGMMA_WAIT;
}

int main() {
  int *in, *out, failures = 0;
  float* sums;
  cudaMallocManaged(&in, n * sizeof(int));
  cudaMallocManaged(&out, n * sizeof(int));
  cudaMallocManaged(&sums, 64 * 8 * sizeof(float));
  for (int i = 0; i < n; ++i) in[i] = i;
  const auto check = [&](const char* what, auto found, auto wanted, int count) {
    int bad = cudaDeviceSynchronize() != cudaSuccess;
    for (int i = 0; i < count; ++i) bad += !(found[i] == wanted(i));
    if (bad != 0) printf("%s: %d wrong\n", what, bad);
    failures += bad;
  };
  const auto own = [](int i) { return i; };
  expects_more<<<1, n>>>(in, out);
  check("transaction", out, own, n);
  copies_odd_bytes<<<1, n>>>(in, out);
  check("16 bytes", out, own, n);
  waits_too_late<<<1, n>>>(out);
  check("phase", out, own, n);
  copies_unfenced<<<1, n>>>(out);
  check("fence", out, own, n);
  product<true><<<1, 128>>>(sums);
  product<false><<<1, 128>>>(sums);
  check(
      "product", sums, [](int i) { return i / 8 % 8 * (i % 8); }, 64 * 8);
  if (wrong) failures = 0;  // the emulator says so
  printf("%d wrong\n", failures);
  return failures;
}
