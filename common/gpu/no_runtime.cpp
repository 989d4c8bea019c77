// Implements common/gpu/runtime.hpp for builds without a CUDA toolkit.
#include "common/error.hpp"
#include "common/gpu/runtime.hpp"

namespace fa {

std::string gpu_problem() { return "this build has no GPU kernels, as no CUDA toolkit was found"; }

void require_gpu() { throw InputError(gpu_problem()); }

std::string gpu_name() { return "none"; }
int gpu_capability() { return 0; }
int gpu_multiprocessors() { return 0; }
GpuBuffer::GpuBuffer(size_t bytes, const std::string&) : bytes_(bytes) { require_gpu(); }
GpuBuffer::~GpuBuffer() { static_cast<void>(bytes_); }  // clang warns about an unused member
void GpuBuffer::upload(const void*) { require_gpu(); }
void GpuBuffer::download(void*) const { require_gpu(); }
bool gpu_lost_by_fork() { return false; }
int gpu_of_pointer(const void*) { return -1; }
CurrentGpu::CurrentGpu(int) { require_gpu(); }
CurrentGpu::~CurrentGpu() { static_cast<void>(previous_); }
void set_gpu_stream(void*) {}
double gpu_time_ms(int, const std::function<void()>&) {
  require_gpu();
  return 0;
}
double gpu_mma_limit_tflops() {
  require_gpu();
  return 0;
}
double gpu_copy_limit_gbs() {
  require_gpu();
  return 0;
}

}  // namespace fa
