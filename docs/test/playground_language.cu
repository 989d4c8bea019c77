// Atomic operations, constants, local arrays, shuffles, votes and printf, for playground.test.mjs.
// It has hazards.
#include <cassert>
#include <cstdio>
struct P {
  float a;
  int b;
  double c;
};
__constant__ float coef[4];
__device__ int counter;
__device__ float helper(P p, int i) {
  float local[8];
  for (int k = 0; k < 8; ++k) local[k] = p.a * k;
  return local[i % 11];
}
extern __shared__ char raw[];
template <class T>
__global__ void k(P p, T* x, float4* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  T* s = (T*)raw;
  s[threadIdx.x] = x[i];
  __syncthreads();
  atomicAdd(&counter, 1);
  atomicMax(&counter, i);
  atomicCAS(&counter, 5, 6);
  atomicInc((unsigned*)&counter, 7);
  y[i] = y[(i + 1) % n];
  x[i] = s[31 - threadIdx.x] + helper(p, i) + coef[i & 3] + i / n + i % p.b;
  if (i == 3) printf("%d %g %s %zu\n", i, p.c, "hi", sizeof(P));
  assert(i < 1000);
  unsigned b = __ballot_sync(0xffffffff, i & 1);
  x[i] += __popc(b) + __shfl_down_sync(0xffffffff, (double)i, 1) + sinf(x[i]) +
          __syncthreads_count(i > 3) + int(x[i]);
  __threadfence();
  volatile int* v = &counter;
  *v = *v + 1;
}
int main() {
  float* x;
  float4* y;
  cudaMalloc(&x, 64 * 4);
  cudaMalloc(&y, 64 * 16);
  cudaMemset(x, 0, 256);
  cudaMemset(y, 0, 1024);
  float c[4] = {1, 2, 3, 4};
  cudaMemcpyToSymbol(coef, c, sizeof c);
  k<<<2, 32, 128>>>(P{1, 2, 3}, x, y, 64);
  float h[64];
  cudaMemcpy(h, x, 256, cudaMemcpyDeviceToHost);
  for (float f : h) printf("%.9g ", f);
  printf("\n%s\n", cudaGetErrorString(cudaGetLastError()));
}
