#pragma once
// Launches a kernel on the GPU and checks every CUDA call.

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "common/error.hpp"
#include "common/launch_config.hpp"

namespace gpu {

// Thrown when a CUDA call fails. what() has the expression, its source position and CUDA's message.
struct CudaError : std::runtime_error {
  CudaError(cudaError_t code, const char* expression, const char* file, int line)
      : std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + expression +
                           " failed: " + cudaGetErrorString(code)),
        code(code) {}
  cudaError_t code;
};

inline void check(cudaError_t code, const char* expression, const char* file, int line) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // clear the error, so that the next call does not report it again
  throw CudaError(code, expression, file, line);
}
#define FA_CUDA_CHECK(expression) ::gpu::check((expression), #expression, __FILE__, __LINE__)

// The stream that launch() uses on this thread. It is the default stream unless the caller sets
// another.
inline cudaStream_t& current_stream() {
  static thread_local cudaStream_t stream = nullptr;
  return stream;
}

// Raises the kernel's limit of shared memory above the default of 48 KB if it needs more. Throws if
// it needs more than the GPU has.
inline void allow_shared_memory(const void* kernel, size_t smem_bytes) {
  int device = 0, most = 0;
  FA_CUDA_CHECK(cudaGetDevice(&device));
  FA_CUDA_CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (smem_bytes > static_cast<size_t>(most)) {
    throw fa::OutOfMemory("this configuration needs " + std::to_string(smem_bytes) +
                          " bytes of shared memory per block and the GPU has " +
                          std::to_string(most));
  }
  if (smem_bytes > 48 * 1024) {
    FA_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(smem_bytes)));
  }
}

using fa::Dim3;
using fa::LaunchConfig;

// Returns the number of SMs of the current GPU.
inline int multiprocessors() {
  int device = 0, count = 0;
  FA_CUDA_CHECK(cudaGetDevice(&device));
  FA_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchConfig& config, Arguments... arguments) {
  allow_shared_memory(reinterpret_cast<const void*>(kernel), config.smem_bytes);
  const auto dimensions = [](const Dim3& d) {
    return dim3(static_cast<unsigned>(d.x), static_cast<unsigned>(d.y), static_cast<unsigned>(d.z));
  };
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dimensions(config.grid);
  launch.blockDim = dimensions(config.block);
  launch.dynamicSmemBytes = config.smem_bytes;
  launch.stream =
      config.stream != nullptr ? static_cast<cudaStream_t>(config.stream) : current_stream();
  cudaLaunchAttribute cluster = {};
  if (config.cluster != Dim3{}) {
    cluster.id = cudaLaunchAttributeClusterDimension;
    const dim3 blocks = dimensions(config.cluster);
    cluster.val.clusterDim.x = blocks.x;
    cluster.val.clusterDim.y = blocks.y;
    cluster.val.clusterDim.z = blocks.z;
    launch.attrs = &cluster;
    launch.numAttrs = 1;
  }
  FA_CUDA_CHECK(cudaLaunchKernelEx(&launch, kernel, static_cast<Parameters>(arguments)...));
}

// The same for one dimension.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int grid, int block, size_t smem_bytes,
            Arguments... arguments) {
  launch(kernel, LaunchConfig{grid, block, smem_bytes}, arguments...);
}

}  // namespace gpu
