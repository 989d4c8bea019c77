// Implements common/gpu/runtime.hpp with the CUDA runtime.
#include "common/gpu/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/backend.hpp"

namespace fa {
namespace {

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

constexpr int LIMIT_CHAINS = 8;  // independent accumulators, so that an mma need not wait for the
                                 // previous one
constexpr int LIMIT_ITERATIONS = 4096;

__global__ void mma_limit(float* out) {
  // Values near 1 of both signs. With zeros the card draws less power and would seem faster.
  const uint32_t x = 0x3f80'bf80u + threadIdx.x * 0x0001'0003u;
  const uint32_t a[4] = {x, x + 1, x + 2, x + 3}, b[2] = {x + 4, x + 5};
  float c[LIMIT_CHAINS][4] = {};
  for (int i = 0; i < LIMIT_ITERATIONS; ++i)
    for (int chain = 0; chain < LIMIT_CHAINS; ++chain) gpu::mma_m16n8k16(a, b, c[chain]);
  float sum = 0;
  for (int chain = 0; chain < LIMIT_CHAINS; ++chain)
    for (int j = 0; j < 4; ++j) sum += c[chain][j];
  if (sum == -1.0f) *out = sum;  // never true, but keeps the compiler from removing the computation
}

// Returns the process that used the GPU first.
pid_t first_process() {
  static const pid_t first = getpid();
  return first;
}

int current_device() {
  int device = 0;
  FA_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

std::string find_problem() {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return "no NVIDIA driver was found";
  }
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver) {
    return "the NVIDIA driver supports CUDA " + version(driver) + ", this program needs " +
           version(CUDART_VERSION) + ": update the driver";
  }
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
    return "this machine has no GPU";
  }
  if (code != cudaSuccess) {
    return std::string("no GPU can be used: ") + cudaGetErrorString(code);
  }
  if (gpu_capability() < 80) {
    return "the GPU " + gpu_name() + " is sm_" + std::to_string(gpu_capability()) +
           "; cp.async and bf16 mma need sm_80 or later";
  }
  return "";
}

const std::string& problem_at_first() {
  static const std::string problem = find_problem();
  return problem;
}

}  // namespace

bool gpu_lost_by_fork() {
  const pid_t first = first_process();
  return problem_at_first().empty() && getpid() != first;
}

std::string gpu_problem() {
  if (!gpu_lost_by_fork()) return problem_at_first();
  return "this process was forked from one that had used the GPU, which CUDA does not survive: "
         "start it by spawn or exec";
}

void require_gpu() {
  if (!gpu_problem().empty()) throw InputError(gpu_problem());
}

std::string gpu_name() {
  cudaDeviceProp properties;
  FA_CUDA_CHECK(cudaGetDeviceProperties(&properties, current_device()));
  return properties.name;
}

int gpu_capability() {
  const int device = current_device();
  int major = 0, minor = 0;
  FA_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  FA_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return major * 10 + minor;
}

int gpu_multiprocessors() {
  int count = 0;
  FA_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, current_device()));
  return count;
}

GpuBuffer::GpuBuffer(size_t bytes, const std::string& name) : bytes_(bytes) {
  const cudaError_t code = cudaMalloc(&data_, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) {  // not even a context fits
      throw OutOfMemory("the GPU has no memory left: another program holds it");
    }
    throw OutOfMemory(name + " takes " + std::to_string(bytes >> 20) + " MiB and " +
                      std::to_string(free >> 20) + " of the GPU's " + std::to_string(total >> 20) +
                      " MiB are free");
  }
  FA_CUDA_CHECK(code);
}
GpuBuffer::~GpuBuffer() { cudaFree(data_); }

void GpuBuffer::upload(const void* host) {
  FA_CUDA_CHECK(cudaMemcpy(data_, host, bytes_, cudaMemcpyHostToDevice));
}
void GpuBuffer::download(void* host) const {
  FA_CUDA_CHECK(cudaMemcpy(host, data_, bytes_, cudaMemcpyDeviceToHost));
}

int gpu_of_pointer(const void* pointer) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  const bool on_gpu =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return on_gpu ? attributes.device : -1;
}

CurrentGpu::CurrentGpu(int device) {
  FA_CUDA_CHECK(cudaGetDevice(&previous_));
  FA_CUDA_CHECK(cudaSetDevice(device));
}
CurrentGpu::~CurrentGpu() { cudaSetDevice(previous_); }

void set_gpu_stream(void* stream) { gpu::current_stream() = static_cast<cudaStream_t>(stream); }

double gpu_time_ms(int runs, const std::function<void()>& work) {
  cudaEvent_t start, stop;
  FA_CUDA_CHECK(cudaEventCreate(&start));
  FA_CUDA_CHECK(cudaEventCreate(&stop));
  work();
  std::vector<float> times(runs);
  for (float& time : times) {
    FA_CUDA_CHECK(cudaEventRecord(start, gpu::current_stream()));
    work();
    FA_CUDA_CHECK(cudaEventRecord(stop, gpu::current_stream()));
    FA_CUDA_CHECK(cudaEventSynchronize(stop));
    FA_CUDA_CHECK(cudaEventElapsedTime(&time, start, stop));
  }
  FA_CUDA_CHECK(cudaEventDestroy(start));
  FA_CUDA_CHECK(cudaEventDestroy(stop));
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return times[runs / 2];
}

double gpu_mma_limit_tflops() {
  int processors = 0;
  FA_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  constexpr int BLOCKS_EACH = 4, WARPS = 4;
  const int blocks = processors * BLOCKS_EACH;
  const double ms = gpu_time_ms(
      5, [&] { gpu::launch(mma_limit, blocks, WARPS * 32, 0, static_cast<float*>(nullptr)); });
  const double flops = 2.0 * 16 * 8 * 16 * LIMIT_CHAINS * LIMIT_ITERATIONS * WARPS * blocks;
  return flops / ms * 1e-9;
}

double gpu_copy_limit_gbs() {
  constexpr size_t BYTES = size_t{1} << 29;  // several times the L2 cache of any card
  const GpuBuffer from(BYTES, "the copy's source"), to(BYTES, "the copy");
  FA_CUDA_CHECK(cudaMemset(from.data(), 0x5a, BYTES));
  const double ms = gpu_time_ms(5, [&] {
    FA_CUDA_CHECK(cudaMemcpyAsync(to.data(), from.data(), BYTES, cudaMemcpyDeviceToDevice,
                                  gpu::current_stream()));
  });
  return 2.0 * BYTES / ms * 1e-6;
}

}  // namespace fa
