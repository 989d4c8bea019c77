// Kernels whose traffic is known: a transpose with and without padding, atomic operations as an
// H100 counted them, and pairs, which are one access: a half2, and both members of a float2.
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

__global__ void pairs(const float2* in, float* out) {
  const int i = threadIdx.x;
  out[i] = in[i].x - in[i].y;
}

__global__ void half_atomics(half2* sums) {
  const int i = threadIdx.x;
  const half2 both = __floats2half2_rn(1, 2);
  atomicAdd(&sums[i], both);
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(&sums[i]),
               "r"(*reinterpret_cast<const unsigned*>(&both))
               : "memory");
  atomicAdd(reinterpret_cast<half*>(sums) + i, __float2half(0.5f));
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
  pairs<<<1, 32>>>((const float2*)in, out);
  half2 sums[32];
  cudaMemset(out, 0, sizeof sums);
  half_atomics<<<1, 32>>>((half2*)out);
  cudaMemcpy(sums, out, sizeof sums, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 32; ++i) {
    const float more = i < 16 ? 0.5f : 0;
    if (!(__low2float(sums[i]) == 2 + more && __high2float(sums[i]) == 4 + more)) return 4;
  }
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
}
