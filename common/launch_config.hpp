#pragma once
// The configuration of a kernel launch, on a GPU and on the emulator.

#include <cstddef>

#if defined(__CUDACC__)
#define FA_ON_BOTH __host__ __device__
#else
#define FA_ON_BOTH
#endif

namespace fa {

// The size of a grid or a block in up to three dimensions, or an index in it.
struct Dim3 {
  int x = 1, y = 1, z = 1;
  FA_ON_BOTH constexpr Dim3(int x_ = 1, int y_ = 1, int z_ = 1) : x(x_), y(y_), z(z_) {}
  friend constexpr bool operator==(const Dim3&, const Dim3&) = default;
};

struct LaunchConfig {
  Dim3 grid;               // blocks
  Dim3 block;              // threads per block
  size_t smem_bytes = 0;   // dynamic shared memory per block
  Dim3 cluster = {};       // blocks per cluster, which run at the same time and can synchronize
                           // (sm_90)
  void* stream = nullptr;  // cudaStream_t, or nullptr for the calling thread's (set_gpu_stream)
};

}  // namespace fa

#undef FA_ON_BOTH
