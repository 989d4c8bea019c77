// Kernels whose traffic is known: a transpose with and without padding, atomic operations as an
// H100 counted them, and a half2, which is one access.
#include <cuda_fp16.h>

#include <cstdio>

template <int PITCH>
__global__ void transpose(const float* in, float* out) {
  __shared__ float tile[32][PITCH];
  const int column = threadIdx.x % 32, first = threadIdx.x / 32;
  for (int row = first; row < 32; row += 4) tile[row][column] = in[row * 32 + column];
  __syncthreads();
  for (int row = first; row < 32; row += 4) {
    const float value = tile[column][row];  // the line with the most wavefronts
    out[row * 32 + column] = value;
  }
}

template <int STRIDE>
__global__ void atomics(float* sums) {
  __shared__ int counts[1024];
  __shared__ float partial[1024];
  for (int i = threadIdx.x; i < 1024; i += 32) partial[i] = counts[i] = 0;
  __syncthreads();
  const int i = threadIdx.x * STRIDE;
  atomicAdd(&sums[i], 1);
  atomicAdd(&counts[i], 1);
  atomicAdd(&partial[i], 1);
  __syncthreads();
  sums[threadIdx.x] = counts[threadIdx.x] + partial[threadIdx.x];
}

__global__ void halves(const half2* in, half2* out) {
  const half2 x = in[threadIdx.x];
  out[threadIdx.x] = __hadd2(x, x);
}

int main() {
  float *in, *out;
  cudaMalloc(&in, 4096);
  cudaMalloc(&out, 4096);
  cudaMemset(in, 0, 4096);
  transpose<32><<<1, 128>>>(in, out);
  transpose<33><<<1, 128>>>(in, out);
  atomics<0><<<1, 32>>>(out);
  atomics<1><<<1, 32>>>(out);
  atomics<8><<<1, 32>>>(out);
  halves<<<1, 32>>>((const half2*)in, (half2*)out);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
}
