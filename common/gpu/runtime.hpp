#pragma once
// The GPU functions that host code uses. Without a CUDA toolkit the same declarations exist, but
// every function that needs a GPU throws the text of gpu_problem().

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace fa {

// Returns a sentence that says why no kernel can run on a GPU here, or an empty string if one can.
// It checks for a build with CUDA, a driver that is new enough, a GPU, and sm_80 or later.
// gpu_problem(const KernelBuild&) adds what a chapter's kernel needs beyond that.
std::string gpu_problem();

// Throws InputError(gpu_problem()) unless it is empty.
void require_gpu();

// Properties of the current GPU.
std::string gpu_name();  // "NVIDIA H200"
int gpu_capability();    // 90 for sm_90
int gpu_multiprocessors();

// Device memory, freed with the object. Throws InputError if the GPU has too little.
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

// True if gpu_problem() is due to a fork, because a parent of this process had used the GPU before.
bool gpu_lost_by_fork();

// Returns the number of the GPU whose memory contains this address; -1 for host memory.
int gpu_of_pointer(const void* pointer);

// Makes a GPU the current one, and restores the previous one when it is destroyed.
class CurrentGpu {
 public:
  explicit CurrentGpu(int device);
  ~CurrentGpu();
  CurrentGpu(const CurrentGpu&) = delete;

 private:
  int previous_ = 0;
};

// Sets the stream for later launches of this thread, where nullptr is the default stream.
void set_gpu_stream(void* stream);

// Returns the milliseconds that the launches in `work` take on the GPU, as the median of `runs`
// runs after one warm-up run.
double gpu_time_ms(int runs, const std::function<void()>& work);

// Returns the TFLOP/s of mma.sync on this card when it accesses only registers. No kernel of
// chapters 03 to 08 can be faster.
double gpu_mma_limit_tflops();

// Returns the GB/s of a copy in device memory on this card, with reads and writes both counted.
double gpu_copy_limit_gbs();

}  // namespace fa
