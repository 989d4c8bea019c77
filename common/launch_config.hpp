#pragma once
// How a kernel is launched, on a GPU and on the emulator: plain data.

#include <cstddef>

#if defined(__CUDACC__)
#define FA_ON_BOTH __host__ __device__
#else
#define FA_ON_BOTH
#endif

namespace fa {

// Up to three dimensions of a grid or a block, or a place in it.
struct Dim3 {
  int x = 1, y = 1, z = 1;
  FA_ON_BOTH constexpr Dim3(int x_ = 1, int y_ = 1, int z_ = 1) : x(x_), y(y_), z(z_) {}
  friend constexpr bool operator==(const Dim3&, const Dim3&) = default;
};

struct LaunchConfig {
  Dim3 grid;               // blocks
  Dim3 block;              // threads of each
  size_t smem_bytes = 0;   // dynamic shared memory of each block
  Dim3 cluster = {};       // blocks that run at the same time, and can meet (sm_90)
  void* stream = nullptr;  // cudaStream_t; nullptr: the calling thread's (set_gpu_stream)
};

}  // namespace fa

#undef FA_ON_BOTH
