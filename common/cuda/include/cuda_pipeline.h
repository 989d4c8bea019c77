#pragma once
// __pipeline_memcpy_async and its waits are cp.async.

#include "cuda_runtime.h"

extern "C" __device__ void emucuda_cp_async(void* to, const void* from, int bytes, int source_bytes);
extern "C" __device__ void emucuda_cp_async_commit_group();
extern "C" __device__ void emucuda_cp_async_wait_group(int pending);

__device__ static inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes,
                                                      size_t zeros = 0) {
  emucuda_cp_async(to, from, (int)bytes, (int)(bytes - zeros));
}
__device__ static inline void __pipeline_commit() { emucuda_cp_async_commit_group(); }
__device__ static inline void __pipeline_wait_prior(size_t pending) {
  emucuda_cp_async_wait_group((int)pending);
}
