// Reads of global memory that no copy, memset or kernel has written. Only with -D WRONG do the
// kernels read the second half of their buffers, which is such memory.
#include <cuda_pipeline.h>

#include <cstdio>
#include <vector>

#ifdef WRONG
constexpr int shift = 64;
#else
constexpr int shift = 0;
#endif

constexpr int n = 64;

__global__ void reads(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x + shift];  // expect uninitialized_read
}

__global__ void reads_vector(const float4* in, float4* out) {
  out[threadIdx.x] = in[threadIdx.x + shift / 4];  // expect uninitialized_read
}

__global__ void counts(int* count) {
  atomicAdd(count + threadIdx.x + shift, 1);  // expect uninitialized_read
}

__global__ void polls(const int* flag, int* out) {
  out[threadIdx.x] = *(const volatile int*)(flag + shift);  // expect uninitialized_read
}

__global__ void copies(const float4* in, float4* out) {
  __shared__ float4 tile[n / 4];
  const int i = threadIdx.x;
  __pipeline_memcpy_async(&tile[i], &in[i + shift / 4], 16);  // expect uninitialized_read
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[i] = tile[i];
}

// The rest is right, because all bits set is a value as any other.
struct Padded {
  double a;
  char b;  // 7 bytes of padding follow
};

__global__ void writes_ones(int* out, signed char* bytes, Padded* padded, float4* partly) {
  const int i = threadIdx.x;
  out[i] = -1;
  bytes[i] = -1;
  padded[i].a = i;
  padded[i].b = -1;
  partly[i].y = i;
}

__global__ void reads_ones(const int* in, const signed char* bytes, const Padded* padded,
                           const float4* partly, const int* set, const int* copied, int* sum) {
  const int i = threadIdx.x;
  const Padded own = padded[i];
  const float4 some = partly[i];
  sum[i] = in[i] + bytes[i] + own.b + (own.a == i) + set[i] + copied[i] + (some.y == i) +
           (some.x == some.z);
}

__global__ void copies_padded(const Padded* in, Padded* out) { out[threadIdx.x] = in[threadIdx.x]; }

__global__ void exchanges(int* word, int* out) {
  atomicExch(word + threadIdx.x, -2);
  atomicAdd(word + threadIdx.x, 1);
  out[threadIdx.x] = word[threadIdx.x];
}

template <class T>
static T* allocate(int count) {
  T* p = nullptr;
  cudaMalloc(&p, count * sizeof(T));
  return p;
}

int main() {
  float *in = allocate<float>(2 * n), *out = allocate<float>(n);
  int *ints = allocate<int>(2 * n), *results = allocate<int>(n);
  cudaMemset(in, 0, n * sizeof(float));
  cudaMemset(ints, 0, n * sizeof(int));
  reads<<<1, n>>>(in, out);
  reads_vector<<<1, n / 4>>>((const float4*)in, (float4*)out);
  copies<<<1, n / 4>>>((const float4*)in, (float4*)out);
  polls<<<1, n>>>(ints, results);
  counts<<<1, n>>>(ints);

  int *ones = allocate<int>(n), *set = allocate<int>(n), *copied = allocate<int>(n),
      *copied_again = allocate<int>(n), *words = allocate<int>(n);
  auto* bytes = allocate<signed char>(n);
  auto *padded = allocate<Padded>(n), *padded_again = allocate<Padded>(n),
       *padded_copy = allocate<Padded>(n);
  auto* partly = allocate<float4>(n);
  const std::vector<int> host(n, -1);
  cudaMemset(set, 0xff, n * sizeof(int));
  cudaMemcpy(copied, host.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(copied_again, copied, n * sizeof(int), cudaMemcpyDeviceToDevice);
  writes_ones<<<1, n>>>(ones, bytes, padded, partly);
  copies_padded<<<1, n>>>(padded, padded_again);
  cudaMemcpy(padded_copy, padded_again, n * sizeof(Padded), cudaMemcpyDeviceToDevice);
  reads_ones<<<1, n>>>(ones, bytes, padded_copy, partly, set, copied_again, results);
  std::vector<int> sums(n);
  cudaMemcpy(sums.data(), results, n * sizeof(int), cudaMemcpyDeviceToHost);
  exchanges<<<1, n>>>(words, results);
  std::vector<int> last(n);
  cudaMemcpy(last.data(), results, n * sizeof(int), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) {
    if (sums[i] != -3 || last[i] != -1) {
      std::printf("wrong: %d %d at %d\n", sums[i], last[i], i);
      return 3;
    }
  }
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
}
