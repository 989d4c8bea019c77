#pragma once
// Lets one kernel file compile twice, with nvcc for the GPU and with any C++20 compiler for the
// emulator. Both sides offer the same functions in namespace FA_BACKEND, and a kernel calls no
// others.
//
// Everything that a kernel file defines is in namespace FA_BACKEND::chNN. Otherwise nvcc's host
// pass and the emulator build would instantiate the same templates under the same names. The linker
// would keep one of each without a warning, so one chapter would run another chapter's code.

#if defined(__CUDACC__)
#define FA_BACKEND gpu
#define FA_KERNEL __global__
#define FA_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define FA_DEVICE __device__ __forceinline__
#define FA_HOST_DEVICE __host__ __device__
// Unrolls a loop that indexes registers, because they have no run-time index.
#define FA_UNROLL _Pragma("unroll")
#define FA_NO_UNROLL _Pragma("unroll 1")    // for loops that run rarely, where short code is better
#define FA_GRID_CONSTANT __grid_constant__  // for a parameter whose address is used, a tensor map
#include "common/gpu/device.hpp"
#include "common/gpu/hopper.hpp"
#include "common/gpu/launch.hpp"
#else
#define FA_KERNEL
#define FA_LAUNCH_BOUNDS(threads, blocks)
#define FA_DEVICE inline
#define FA_HOST_DEVICE
#define FA_UNROLL
#define FA_NO_UNROLL
#define FA_GRID_CONSTANT
#define FA_BACKEND emulator
#include "common/simt/hopper.hpp"
#endif
#include "common/matrix_descriptor.hpp"

// Last parameters of a helper, if the emulator should report the helper's caller.
#define FA_SITE int line = __builtin_LINE(), const char *file = __builtin_FILE()
