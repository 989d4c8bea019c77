#pragma once
// half and half2, on clang's _Float16.

#include "cuda_runtime.h"

#define EMUCUDA_NAME half
#define EMUCUDA_NAME2 half2
#define EMUCUDA_T __half
#define EMUCUDA_T2 __half2
#define EMUCUDA_ATOMIC_ADD emucuda_atomic_add_f16
#define EMUCUDA_TO_BITS(x) __builtin_bit_cast(unsigned short, (_Float16)(x))
#define EMUCUDA_TO_FLOAT(bits) (float)__builtin_bit_cast(_Float16, bits)
#include "emucuda_16bit.h"

typedef __half half;
typedef __half nv_half;
typedef __half2 half2;
typedef __half2 nv_half2;
