// Code that CUDA allows, but not in a kernel of the chapters. Each check prints a line only if it
// fails. Races as CUDA defines them, masks, partial warps, atomic operations of every type.
#include <stdio.h>
#include <stdlib.h>

static int failures = 0;
static void check(bool good, const char* what) {
  if (!good) {
    printf("wrong: %s\n", what);
    ++failures;
  }
}

__global__ void returns_early(const int* in, int* out, int n) {
  __shared__ int tile[128];
  const int i = threadIdx.x;
  if (i >= n) return;
  tile[i] = in[i];
  __syncthreads();  // threads that have returned count as arrived
  out[i] = tile[n - 1 - i];
}

__device__ int open_group, copies_of_group[4];
__device__ void note(int most) {
  if (threadIdx.x == 0 && open_group < most) ++copies_of_group[open_group];
}
__global__ void one_thread_counts() {  // no other thread loads the counter
  note(4);
  if (threadIdx.x == 0 && open_group < 3) ++open_group;
  note(4);
}

__global__ void same_value(int* out) {
  __shared__ int size;
  size = blockDim.x;  // note: all lanes of the warp store the same value
  __syncthreads();
  out[threadIdx.x] = size;
}

__global__ void small_block(int* out) {  // 20 threads
  int sum = threadIdx.x;
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_sync(0xffffffff, sum, lane);
  const unsigned votes = __ballot_sync(0xffffffff, threadIdx.x % 2);
  out[threadIdx.x] = threadIdx.x == 0 ? __popc(votes) : sum;
}

__global__ void halves(int* out) {
  const int lane = threadIdx.x;
  int value = lane;
  if (lane < 16) {
    for (int offset = 8; offset > 0; offset /= 2)
      value += __shfl_xor_sync(0x0000ffff, value, offset);
  } else {
    value = __reduce_max_sync(0xffff0000, value);
    __syncwarp(0xffff0000);
  }
  out[lane] = value;
}

__global__ void converges(int* out) {
  if (threadIdx.x % 4 == 1) {
    const unsigned mask = __activemask();
    const int leader = __ffs(mask) - 1;
    int first = 0;
    if (static_cast<int>(threadIdx.x) == leader) first = atomicAdd(out, __popc(mask));
    first = __shfl_sync(mask, first, leader);
    out[1 + threadIdx.x] = first + __popc(mask & ((1u << threadIdx.x) - 1));
  }
}

__global__ void votes(int* out) {
  const int i = threadIdx.x;
  out[i] = __syncthreads_count(i % 3 == 0);
  out[i] += 1000 * __syncthreads_or(i == 77) + 2000 * __syncthreads_and(i < 1000);
  const unsigned same = __match_any_sync(0xffffffff, i / 8);
  int all = 0;
  __match_all_sync(0xffffffff, i / 32, &all);
  out[i] += 10000 * __popc(same) + 1000000 * all;
  out[i] += 2000000 * __any_sync(0xffffffff, i == 3) * (i < 32);
}

template <class T>
__global__ void atomics(T* out) {
  __shared__ T shared[2];
  if (threadIdx.x == 0) shared[0] = shared[1] = 0;
  __syncthreads();
  atomicAdd(&shared[0], T(1));
  atomicMax(&shared[1], T(threadIdx.x));
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(out, shared[0]);
    atomicMax(out + 1, shared[1]);
    atomicMin(out + 2, T(3));
  }
}

__global__ void bits(unsigned* out) {
  const unsigned i = threadIdx.x;
  atomicOr(out, 1u << i % 32);
  atomicAnd(out + 1, ~(1u << i % 32));
  atomicXor(out + 2, i);
  atomicInc(out + 3, 6);
  atomicExch(out + 4, 7u);
  unsigned old = *(volatile unsigned*)(out + 5), assumed;
  do {  // a product by compare-and-swap
    assumed = old;
    old = atomicCAS(out + 5, assumed, assumed * 3);
  } while (assumed != old);
}

__device__ int lock_word;
__device__ int guarded;
__global__ void locks() {
  if (threadIdx.x == 0) {
    while (atomicCAS(&lock_word, 0, 1) != 0) {
    }
    __threadfence();
    guarded = guarded + 1;
    __threadfence();
    atomicExch(&lock_word, 0);
  }
}

__device__ unsigned finished;
__global__ void last_block(int* partial, int* out) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    is_last = atomicAdd(&finished, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    __threadfence();
    int sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];
    *out = sum;
  }
}

template <class T>
static T* array(int n) {
  T* p = nullptr;
  cudaMallocManaged(&p, n * sizeof(T));
  memset(p, 0, n * sizeof(T));
  return p;
}

template <class T>
static void try_atomics(const char* what) {
  T* out = array<T>(3);
  out[2] = 100;
  atomics<<<4, 96>>>(out);
  cudaDeviceSynchronize();
  check(out[0] == 4 * 96 && out[1] == 95 && out[2] == 3, what);
}

int main() {
  int* in = array<int>(128);
  int* out = array<int>(256);
  for (int i = 0; i < 128; ++i) in[i] = i;
  returns_early<<<1, 128>>>(in, out, 70);
  cudaDeviceSynchronize();
  check(out[0] == 69 && out[69] == 0, "a barrier after an early return");
  one_thread_counts<<<1, 64>>>();
  cudaDeviceSynchronize();
  same_value<<<1, 32>>>(out);
  cudaDeviceSynchronize();
  check(out[31] == 32, "a value that all lanes store");
  small_block<<<1, 20>>>(out);
  cudaDeviceSynchronize();
  check(out[0] == 10, "votes of a small block");
  halves<<<1, 32>>>(out);
  cudaDeviceSynchronize();
  check(out[3] == 120 && out[20] == 31, "two masks at the same time");
  memset(out, 0, 256 * sizeof(int));
  converges<<<1, 32>>>(out);
  cudaDeviceSynchronize();
  check(out[0] == 8 && out[1 + 1] == 0 && out[1 + 29] == 7, "activemask");
  votes<<<1, 96>>>(out);
  cudaDeviceSynchronize();
  check(out[5] == 32 + 3000 + 80000 + 1000000 + 2000000 && out[40] == 32 + 3000 + 80000 + 1000000,
        "votes");
  try_atomics<int>("atomics on int");
  try_atomics<unsigned>("atomics on unsigned");
  try_atomics<unsigned long long>("atomics on unsigned long long");
  unsigned* words = array<unsigned>(6);
  words[1] = 0xffffffff;
  words[5] = 1;
  bits<<<1, 40>>>(words);
  cudaDeviceSynchronize();
  unsigned product = 1, parity = 0;
  for (unsigned i = 0; i < 40; ++i) product *= 3, parity ^= i;
  check(words[0] == 0xffffffff && words[1] == 0 && words[2] == parity && words[3] == 40 % 7 &&
            words[4] == 7 && words[5] == product,
        "atomics on bits");
  locks<<<20, 32>>>();
  cudaDeviceSynchronize();
  int count = 0;
  cudaMemcpyFromSymbol(&count, guarded, sizeof count);
  check(count == 20, "a lock");
  last_block<<<10, 32>>>(in, out);
  cudaDeviceSynchronize();
  check(out[0] == 55, "the last block adds up");
  if (failures == 0) printf("all right\n");
  return failures;
}
