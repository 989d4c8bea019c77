#pragma once
// __nv_bfloat16 and __nv_bfloat162.

#include "cuda_runtime.h"

// Rounds to nearest even, and a NaN stays one.
static inline __host__ __device__ unsigned short emucuda_to_bf16(float value) {
  unsigned bits = __builtin_bit_cast(unsigned, value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define EMUCUDA_NAME bfloat16
#define EMUCUDA_NAME2 bfloat162
#define EMUCUDA_T __nv_bfloat16
#define EMUCUDA_T2 __nv_bfloat162
#define EMUCUDA_ATOMIC_ADD emucuda_atomic_add_bf16
#define EMUCUDA_TO_BITS(x) emucuda_to_bf16((float)(x))
#define EMUCUDA_TO_FLOAT(bits) __builtin_bit_cast(float, (unsigned)(bits) << 16)
#include "emucuda_16bit.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
