#pragma once
// __nv_fp8_e4m3 and __nv_fp8_e5m2 are rounded to nearest even, with saturation.

#include "cuda_fp16.h"

#define EMUCUDA_FP8(name, mantissa_bits, bias, most)                                              \
  struct name {                                                                                   \
    unsigned char __x;                                                                            \
    name() = default;                                                                             \
    __host__ __device__ explicit name(float value) {                                              \
      const unsigned sign = __builtin_bit_cast(unsigned, value) >> 24 & 0x80;                     \
      const float magnitude = __builtin_fabsf(value);                                             \
      if (value != value) {                                                                       \
        __x = 0x7f;                                                                               \
        return;                                                                                   \
      }                                                                                           \
      const float clamped = magnitude > most ? most : magnitude;                                  \
      int exponent = 1 - bias; /* the smallest normal number's; below it the steps stay */     \
      while (exponent < 16 && clamped >= __builtin_ldexpf(1, exponent + 1)) ++exponent;           \
      const float steps = __builtin_rintf(__builtin_ldexpf(clamped, mantissa_bits - exponent));   \
      __x = (unsigned char)(sign | (((exponent + bias - 1) << mantissa_bits) + (int)steps));      \
    }                                                                                             \
    __host__ __device__ operator float() const {                                                  \
      const int code = __x & 0x7f, top = code >> mantissa_bits, low = code & ((1 << mantissa_bits) - 1); \
      if (mantissa_bits == 3 ? code == 0x7f : top == 31) {                                        \
        return mantissa_bits == 3 || low != 0 ? __builtin_nanf("") : __x & 0x80 ? -__builtin_inff() : __builtin_inff(); \
      }                                                                                           \
      const float value = top == 0 ? __builtin_ldexpf((float)low, 1 - bias - mantissa_bits)       \
                                   : __builtin_ldexpf((float)(low | 1 << mantissa_bits), top - bias - mantissa_bits); \
      return __x & 0x80 ? -value : value;                                                         \
    }                                                                                             \
  };
EMUCUDA_FP8(__nv_fp8_e4m3, 3, 7, 448.0f)
EMUCUDA_FP8(__nv_fp8_e5m2, 2, 15, 57344.0f)
#undef EMUCUDA_FP8
typedef unsigned char __nv_fp8_storage_t;
