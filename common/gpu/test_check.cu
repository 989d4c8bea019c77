// What FA_CUDA_CHECK says: no GPU needed. The place is relative to the repository.
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
