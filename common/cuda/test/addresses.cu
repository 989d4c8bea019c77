// Indices that are far out, and memory that has been freed. What is reported does not depend on
// which buffers the program has, or in which order they were made.
#include <cstdint>
#include <cstdio>
#include <initializer_list>

#ifdef WRONG
constexpr bool wrong = true;
#else
constexpr bool wrong = false;
#endif

__global__ void before(float* a) {
  a[threadIdx.x - (wrong ? 1310000L : 0)] = 1;  // expect out_of_bounds: a[-1310000], outside
}
__global__ void after(float* a, long n) {
  a[wrong ? n : 0] = 1;  // expect out_of_bounds: a[1310000], outside
}
__global__ void negative(int* x, int n) {
  x[wrong ? -n - 1 : 0] = 1;  // expect out_of_bounds: x[-2000000001], outside
}
__global__ void early(const float* a, float* b) { b[0] = a[0]; }
__global__ void late(const float* b, float* c) {
  c[0] = b[threadIdx.x];  // expect out_of_bounds: cudaFree has freed a[0], which was there
}
__global__ void late_again(int* to) {
  to[5] = 1;  // expect out_of_bounds: cudaFree has freed to[5], which was there
}

__device__ int first[4], second[4];
__constant__ int third[4], fourth[4];
__global__ void neighbour(int* out, int i) {
  first[i] = 1;         // expect out_of_bounds: at first[16], outside
  out[0] = fourth[-i];  // expect out_of_bounds: outside every registered buffer
  out[1] = second[0] + third[0];
}

#define CHECK(call)                                \
  if ((call) != cudaSuccess) {                     \
    std::printf("line %d: %s\n", __LINE__, #call); \
    return 1;                                      \
  }

int main() {
  float *a, *b, *c, *pitched, *host, *managed;
  int* numbers;
  size_t pitch = 0;
  constexpr size_t n = 98304;
  CHECK(cudaMalloc(&a, n * sizeof(float)));
  CHECK(cudaMalloc(&b, n * sizeof(float)));
  CHECK(cudaMallocPitch(&pitched, &pitch, 100, 10));
  CHECK(cudaMallocHost(&host, 100));
  CHECK(cudaMallocManaged(&managed, 100));
  CHECK(cudaMallocAsync(&c, n * sizeof(float), 0));
  CHECK(cudaMalloc(&numbers, 400));
  for (void* p : {(void*)a, (void*)b, (void*)c, (void*)pitched, (void*)host, (void*)managed}) {
    if ((uintptr_t)p % 256 != 0) return 1;
  }
  before<<<1, 32>>>(a);
  after<<<1, 1>>>(a, 1310000);
  negative<<<1, 1>>>(numbers, 2000000000);
  CHECK(cudaMemset(a, 0, n * sizeof(float)));
  early<<<1, 1>>>(a, b);
  early<<<1, 1>>>(b, managed);
  if (!wrong) CHECK(cudaDeviceSynchronize());
  managed[1] = host[0] = managed[0];  // the host accesses both

  // Thousands of buffers come and go; b and numbers are still known as freed.
  CHECK(cudaMemset(numbers, 0, 400));
  late_again<<<1, 1>>>(numbers);
  CHECK(wrong ? cudaFree(b) : cudaSuccess);
  CHECK(wrong ? cudaFreeAsync(numbers, 0) : cudaSuccess);
  for (int i = 0; i < 1000; ++i) {
    float* d;
    CHECK(cudaMalloc(&d, 1000 * (i % 7 + 1)));
    CHECK(cudaMemset(d, 0, 1000));
    CHECK(cudaFree(d));
  }
  late<<<1, 1>>>(b, c);
  late_again<<<1, 1>>>(numbers);

  CHECK(cudaMemset(numbers, 0, wrong ? 0 : 400));
  int* out = (int*)c;
  neighbour<<<1, 1>>>(out, wrong ? 4 : 0);
  return cudaDeviceSynchronize() != cudaSuccess;
}
