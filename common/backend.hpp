#pragma once
// A kernel file compiles twice: by nvcc for the GPU, by any C++20 compiler for the emulator. Both
// sides offer the same functions in namespace FA_BACKEND; a kernel calls nothing else.
//
// Everything a kernel file defines stands in namespace FA_BACKEND::chNN. Without it nvcc's host
// pass and the emulator build would instantiate the same templates under the same names, the linker
// would keep one of each without a word, and one chapter would run another's code.

#if defined(__CUDACC__)
#define FA_BACKEND gpu
#define FA_KERNEL __global__
#define FA_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define FA_DEVICE __device__ __forceinline__
#define FA_HOST_DEVICE __host__ __device__
#define FA_UNROLL _Pragma("unroll")  // registers have no run-time index: unroll what indexes them
#define FA_NO_UNROLL _Pragma("unroll 1")    // a loop that runs seldom: short code is better
#define FA_GRID_CONSTANT __grid_constant__  // a parameter that keeps its place: a tensor map
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

// Last parameters of a helper whose caller is the better place for the emulator to report.
#define FA_SITE int line = __builtin_LINE(), const char *file = __builtin_FILE()
