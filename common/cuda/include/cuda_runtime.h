#pragma once
// CUDA C++ for emucuda, which compiles with clang and without a CUDA toolkit: the language's
// keywords, types and functions, then the runtime API. The driver includes it before every file.

#ifndef __CUDA__
#error "this header is for clang's CUDA mode: compile with emucuda"
#endif

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ \
  __device__ __attribute__((unavailable("a __managed__ variable is not supported; use cudaMallocManaged")))
#define __grid_constant__
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __cluster_dims__(...) __attribute__((annotate("cluster_dims", __VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define CUDART_CB
#define CUDART_VERSION 12030
#define CUDA_VERSION 12030
#define __CUDA_API_VERSION 12030
#define __CUDART_API_VERSION 12030
#define __DRIVER_TYPES_H__
#define __CUDA_RUNTIME_H__
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 3

#include <__clang_cuda_math_forward_declares.h>

#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef __CUDACC__
#define __CUDACC__
#endif

#include "vector_types.h"

#include "emucuda_api.h"

#include <__clang_cuda_builtin_vars.h>
#include <__clang_cuda_libdevice_declares.h>
#include <__clang_cuda_device_functions.h>
#include <__clang_cuda_math.h>

#include "emucuda_device.h"

#include <__clang_cuda_cmath.h>
enum cudaComputeMode { cudaComputeModeDefault, cudaComputeModeExclusive, cudaComputeModeProhibited, cudaComputeModeExclusiveProcess };
typedef unsigned cuuint32_t;
typedef unsigned long long cuuint64_t;
// Functions that clang's header of intrinsics expects from the toolkit's.
__device__ static inline unsigned __isGlobal(const void* p) { return __nvvm_isspacep_global(p); }
__device__ static inline unsigned __isShared(const void* p) { return __nvvm_isspacep_shared(p); }
__device__ static inline unsigned __isConstant(const void* p) { return __nvvm_isspacep_const(p); }
__device__ static inline unsigned __isLocal(const void* p) { return __nvvm_isspacep_local(p); }
__device__ static inline size_t __cvta_generic_to_shared(const void* p);
__device__ static inline size_t __cvta_generic_to_global(const void* p);
__device__ static inline void* __cvta_shared_to_generic(size_t p);
__device__ static inline void* __cvta_global_to_generic(size_t p);
#include <__clang_cuda_intrinsics.h>

#include "emucuda_warp.h"

// `__shared__ alignas(16) T x[…]`, the spelling of CUDA's own guide, is an error for clang. If a
// file fails because of it, the driver compiles the file again with this macro, but the headers
// before it need the keyword.
#ifdef EMUCUDA_ALIGNAS
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <variant>
#include <vector>
#define alignas(...) __attribute__((aligned(__VA_ARGS__)))
#endif
