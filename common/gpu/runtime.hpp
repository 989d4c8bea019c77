#pragma once
// The GPU as host code sees it. The same declarations stand where there is no CUDA toolkit; every
// function but gpu_problem() then throws what gpu_problem() says.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace fa {

// Why no kernel can run on a GPU here, as a sentence; empty if one can. Checked: a build with CUDA,
// a driver that is new enough, a GPU, and one of sm_80 or later. What a chapter's own kernel needs
// beyond that, gpu_problem(const KernelBuild&) says.
std::string gpu_problem();

// Throws InputError(gpu_problem()) unless it is empty.
void require_gpu();

// Of the current GPU.
std::string gpu_name();  // "NVIDIA H200"
int gpu_capability();    // 90 for sm_90
int gpu_multiprocessors();

// Device memory, freed with the object. Throws InputError when the card has too little.
class GpuBuffer {
 public:
  GpuBuffer(size_t bytes, const std::string& name);
  ~GpuBuffer();
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;

  void* data() const { return data_; }
  void upload(const void* host);
  void download(void* host) const;

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

// Is that the reason of gpu_problem(): a parent of this process used the GPU, then forked?
bool gpu_lost_by_fork();

// The number of the GPU in whose memory this address is; -1 for host memory.
int gpu_of_pointer(const void* pointer);

// Makes a GPU the current one, and what it was before at the end.
class CurrentGpu {
 public:
  explicit CurrentGpu(int device);
  ~CurrentGpu();
  CurrentGpu(const CurrentGpu&) = delete;

 private:
  int previous_ = 0;
};

// The stream that launches of this thread use, from now on; nullptr is the default stream.
void set_gpu_stream(void* stream);

// Milliseconds that `work` (launches) takes on the GPU: median of `runs`, after one that warms up.
double gpu_time_ms(int runs, const std::function<void()>& work);

// What mma.sync reaches on this card when it reads and writes nothing but registers, in TFLOP/s: no
// kernel of chapters 03 to 08 can be faster.
double gpu_mma_limit_tflops();

// What copying memory to memory reaches on this card, in GB/s, reads and writes both counted.
double gpu_copy_limit_gbs();

}  // namespace fa
