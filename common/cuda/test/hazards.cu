// Each kind of hazard in a separate kernel. Without -D WRONG the same kernels are right. A
// comment `expect` names what is to be reported at its line when the file is compiled with -D
// WRONG.
#include <cstdio>

#include "wrong.cuh"

constexpr int n = 64;

__global__ void reads_before_barrier(const float* in, float* out) {
  __shared__ float tile[n];
  tile[threadIdx.x] = in[threadIdx.x];
  if (!wrong) __syncthreads();
  out[threadIdx.x] = tile[n - 1 - threadIdx.x];  // expect read_before_barrier
}

__global__ void overwrites_while_read(float* out) {
  extern __shared__ float dynamic[];
  float sum = 0;
  for (int round = 0; round < 2; ++round) {
    dynamic[threadIdx.x] = threadIdx.x + round;  // expect overwrite_while_read
    __syncthreads();
    sum += dynamic[(threadIdx.x + 32) % n];
    if (!wrong) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

__global__ void writes_twice(int* out) {
  __shared__ int last;
  if (wrong || threadIdx.x == 0) last = threadIdx.x;  // expect write_write
  __syncthreads();
  if (threadIdx.x == 0) out[0] = last;
}

__global__ void reads_nothing(int* out) {
  __shared__ int count[2];
  if (threadIdx.x == 0) count[0] = 1;
  __syncthreads();
  out[threadIdx.x] = count[wrong ? 1 : 0];  // expect uninitialized_read
}

__global__ void leaves_shared(int* out) {
  __shared__ int tile[n];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = tile[wrong && threadIdx.x == 3 ? 4 * n : threadIdx.x];  // expect out_of_bounds
}

__global__ void is_misaligned(const float* in, float4* out) {
  const float* from = in + (wrong ? 1 : 0) + 4 * threadIdx.x;
  if (threadIdx.x < 8)
    out[threadIdx.x] = *reinterpret_cast<const float4*>(from);  // expect misaligned
}

__global__ void diverges(int* out) {
  int value = threadIdx.x;
  if (!wrong || threadIdx.x % 32 < 16) {
    value = __shfl_sync(0xffffffff, value, 5);  // expect barrier_divergence
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = value;
}

__global__ void waits_for_ever(int* flag) {
  if (wrong) {
    while (atomicAdd(flag, 0) == 0) {  // expect deadlock
    }
  }
}

__global__ void blocks_race(int* out) {
  if (wrong) {
    out[0] = blockIdx.x;  // expect global_race
  } else {
    atomicAdd(out, 1);
  }
}

__global__ void threads_race(float* out) {
  out[threadIdx.x] = threadIdx.x;  // expect global_race
  if (!wrong) __syncthreads();
  const float next = out[(threadIdx.x + 1) % n];
  __syncthreads();
  out[threadIdx.x] = next;
}

__global__ void threads_write_twice(int* out) {
  if (wrong || threadIdx.x == 0) out[0] = threadIdx.x;  // expect global_race
  __syncthreads();
  if (threadIdx.x < 32) out[1] = 5;  // a note: one value, one instruction
}

// Right: a flag orders the two, as between blocks.
__global__ void passes_on(int* data, int* flag) {
  if (threadIdx.x == 0) {
    data[0] = 7;
    __threadfence();
    atomicExch(flag, 1);
  } else if (threadIdx.x == 32) {
    while (atomicAdd(flag, 0) == 0) {
    }
    __threadfence();
    data[1] = data[0];
  }
}

// Right: both only read.
__global__ void reads_twice(const int* in, int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = i % 2 ? in[0] : *(const volatile int*)in;
}

__global__ void divides(const int* in, int* out) {
  const int divisor = wrong ? in[0] : in[0] + 1;
  out[threadIdx.x] = 100 / divisor;  // expect division_by_zero
}

__global__ void reads_missing_lane(int* out) {
  int value = threadIdx.x;
  if (threadIdx.x < 16) {
    for (int half = 8; half > 0; half /= 2) value += __shfl_down_sync(0xffff, value, half);
    value = __shfl_sync(0xffff, value, wrong ? 20 : 5);  // expect inactive_lane
  }
  out[threadIdx.x] = value;
}

__global__ void neighbours(unsigned char* out) {  // right, as each thread has its own byte
  __shared__ unsigned char bytes[n];
  bytes[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = bytes[threadIdx.x];
}

__global__ void mixes(int* out) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, 1);
  if (!wrong) __syncthreads();
  out[threadIdx.x] = sum;  // expect read_before_barrier
}

int main() {
  float* floats;
  int* ints;
  cudaMalloc(&floats, 4 * n * sizeof(float));
  cudaMalloc(&ints, n * sizeof(int));
  cudaMemset(floats, 0, 4 * n * sizeof(float));
  cudaMemset(ints, 0, n * sizeof(int));
  float* results;
  cudaMalloc(&results, 4 * n * sizeof(float));
  int* out;
  cudaMalloc(&out, n * sizeof(int));
  reads_before_barrier<<<1, n>>>(floats, results);
  overwrites_while_read<<<1, n, n * sizeof(float)>>>(results);
  writes_twice<<<1, n>>>(out);
  reads_nothing<<<1, n>>>(out);
  leaves_shared<<<1, n>>>(out);
  is_misaligned<<<1, 32>>>(floats, reinterpret_cast<float4*>(results));
  diverges<<<1, 32>>>(out);
  waits_for_ever<<<1, 32>>>(ints);
  blocks_race<<<8, 1>>>(out);
  threads_race<<<1, n>>>(results);
  threads_write_twice<<<1, n>>>(out);
  passes_on<<<1, n>>>(out, ints + 4);
  reads_twice<<<2, n / 2>>>(ints, out);
  divides<<<1, 1>>>(ints, out);
  reads_missing_lane<<<1, 32>>>(out);
  neighbours<<<1, n>>>(reinterpret_cast<unsigned char*>(out));
  mixes<<<1, n>>>(out);
  const cudaError_t error = cudaDeviceSynchronize();
  printf("%s\n", cudaGetErrorString(error));
  return 0;
}
