// CUDA C++ of the programming guide, each part in a small kernel that is compared with the host.
#include <cassert>
#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                                         \
  do {                                                                      \
    const cudaError_t error = (call);                                       \
    if (error != cudaSuccess) {                                             \
      printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      return 3;                                                             \
    }                                                                       \
  } while (0)

static int failures = 0;
static void check(bool good, const char* what) {
  if (!good) {
    printf("wrong: %s\n", what);
    ++failures;
  }
}

__constant__ float weights[4];
__device__ float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};

__global__ void memories(float* out) {
  const int i = threadIdx.x;
  out[i] = weights[i % 4] * table[i % 8];
}

template <int N, class F>
__global__ void applies(float* out, F f) {
  float local[N];
#pragma unroll
  for (int i = 0; i < N; ++i) local[i] = f(i + threadIdx.x);
  float sum = 0;
  for (int i = 0; i < N; ++i) sum += local[(i + threadIdx.x) % N];
  out[threadIdx.x] = sum;
}

struct Shape {
  int rows, columns;
  double scale;
  __host__ __device__ int size() const { return rows * columns; }
};

__global__ void takes_struct(Shape shape, int* out) {
  if (threadIdx.x == 0) out[0] = shape.size() + static_cast<int>(shape.scale);
}

__global__ void vectors(const float4* in, float4* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 v = in[i];
  v.x += 1;
  v.w *= 2;
  out[i] = v;
}

__global__ void three_dimensions(int* out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const int z = blockIdx.z * blockDim.z + threadIdx.z;
  const int width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
  out[(z * height + y) * width + x] = 100 * z + 10 * y + x;
}

__global__ void math(const float* in, float* out) {
  const float x = in[threadIdx.x];
  float s, c;
  sincosf(x, &s, &c);
  out[threadIdx.x] = expf(x) + logf(x + 2) + sqrtf(x) + s * c + tanhf(x) + powf(x, 1.5f) +
                     fmaxf(x, 1.0f) + max(x, 0.5f) + __expf(-x) + rsqrtf(x + 1) + erff(x) +
                     floorf(x) + fabsf(-x) + fmaf(x, x, x);
}

__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][33];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  const int column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(row + j) * n + column] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void says(int n) {
  if (threadIdx.x < n)
    printf("thread %d of %s: %.2f %5u|%-4d|%c %lld\n", threadIdx.x, "block", 0.5 * threadIdx.x, 7u,
           3, 'x', 1ll << 40);
}

__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
__global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x); }

__global__ void asserts(int limit) {
  assert(static_cast<int>(threadIdx.x) < limit);  // expect assert
}

int main() {
  float *in, *out;
  int* ints;
  const int n = 128;
  CHECK(cudaMalloc(&in, n * n * sizeof(float)));
  CHECK(cudaMalloc(&out, n * n * sizeof(float)));
  CHECK(cudaMalloc(&ints, 4096 * sizeof(int)));
  std::vector<float> host(n * n), back(n * n);

  const float w[4] = {1, 10, 100, 1000};
  CHECK(cudaMemcpyToSymbol(weights, w, sizeof w));
  memories<<<1, 16>>>(out);
  CHECK(cudaMemcpy(back.data(), out, 64, cudaMemcpyDeviceToHost));
  check(back[0] == 1 && back[5] == 60 && back[15] == 8000, "constant and device variables");

  const float factor = 3;
  applies<4><<<1, 32>>>(out, [=] __device__(float x) { return factor * x; });
  CHECK(cudaMemcpy(back.data(), out, 128, cudaMemcpyDeviceToHost));
  check(back[0] == 18 && back[10] == 18 + 120, "a template and a lambda");

  takes_struct<<<1, 32>>>(Shape{3, 4, 5.5}, ints);
  int value = 0;
  CHECK(cudaMemcpy(&value, ints, sizeof value, cudaMemcpyDeviceToHost));
  check(value == 17, "a structure as an argument");

  for (int i = 0; i < n * n; ++i) host[i] = i * 0.01f;
  CHECK(cudaMemcpy(in, host.data(), n * n * 4, cudaMemcpyHostToDevice));
  vectors<<<2, 32>>>(reinterpret_cast<const float4*>(in), reinterpret_cast<float4*>(out), 40);
  CHECK(cudaMemcpy(back.data(), out, 40 * 16, cudaMemcpyDeviceToHost));
  check(back[4] == host[4] + 1 && back[5] == host[5] && back[7] == host[7] * 2, "float4");

  three_dimensions<<<dim3(2, 2, 2), dim3(3, 2, 2)>>>(ints);
  std::vector<int> cube(6 * 4 * 4);
  CHECK(cudaMemcpy(cube.data(), ints, cube.size() * 4, cudaMemcpyDeviceToHost));
  check(cube[0] == 0 && cube[5] == 5 && cube[6 * 4 * 4 - 1] == 335, "three dimensions");

  math<<<1, 64>>>(in, out);
  CHECK(cudaMemcpy(back.data(), out, 256, cudaMemcpyDeviceToHost));
  bool close = true;
  for (int i = 0; i < 64; ++i) {
    const double x = host[i];
    const double expected = std::exp(x) + std::log(x + 2) + std::sqrt(x) +
                            std::sin(x) * std::cos(x) + std::tanh(x) + std::pow(x, 1.5) +
                            std::fmax(x, 1.0) + std::fmax(x, 0.5) + std::exp(-x) +
                            1 / std::sqrt(x + 1) + std::erf(x) + std::floor(x) + x + x * x + x;
    close = close && std::fabs(back[i] - expected) < 1e-4;
  }
  check(close, "math");

  transpose<<<dim3(4, 4), dim3(32, 8)>>>(in, out, n);
  CHECK(cudaMemcpy(back.data(), out, n * n * 4, cudaMemcpyDeviceToHost));
  bool same = true;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) same = same && back[i * n + j] == host[j * n + i];
  }
  check(same, "transpose");

  recursion<<<1, 10>>>(ints);
  CHECK(cudaMemcpy(cube.data(), ints, 40, cudaMemcpyDeviceToHost));
  check(cube[9] == 34, "recursion");

  says<<<1, 32>>>(2);
  CHECK(cudaDeviceSynchronize());

  cudaStream_t stream;
  cudaEvent_t start, stop;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  CHECK(cudaEventRecord(start, stream));
  recursion<<<1, 4, 0, stream>>>(ints);
  CHECK(cudaEventRecord(stop, stream));
  CHECK(cudaEventSynchronize(stop));
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, start, stop));
  check(ms > 0, "events");

  // Errors are those of CUDA's manual. For the first, CUDA 13.0 returns cudaErrorInvalidValue.
  recursion<<<1, 2000>>>(ints);
  const cudaError_t error = cudaGetLastError();
  check((error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue) &&
            cudaGetLastError() == cudaSuccess,
        "a block that is too large");
  recursion<<<1, 32, 100 * 1024>>>(ints);
  check(cudaGetLastError() == cudaErrorInvalidValue, "shared memory without the attribute");
  check(cudaMemcpy(ints, host.data(), 100000, cudaMemcpyHostToDevice) == cudaErrorInvalidValue,
        "a copy that is too long");
  cudaGetLastError();
#ifdef WRONG
  asserts<<<1, 32>>>(31);
  check(cudaDeviceSynchronize() == cudaErrorAssert, "assert");
#else
  asserts<<<1, 32>>>(32);
  CHECK(cudaDeviceSynchronize());
#endif
  if (failures == 0) printf("all right\n");
  return failures;
}
