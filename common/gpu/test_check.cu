// Tests the message of FA_CUDA_CHECK without a GPU. Its source path is relative to the repository.
#include <cstdio>

#include "common/gpu/launch.hpp"

int main() {
  try {
    FA_CUDA_CHECK(cudaErrorInvalidValue);
  } catch (const gpu::CudaError& error) {
    std::puts(error.what());
    return 0;
  }
  return 1;
}
