#pragma once
// __nv_bfloat16 and __nv_bfloat162: computed in float and rounded to nearest even.

#include "cuda_runtime.h"

#ifndef EMUCUDA_HD
#define EMUCUDA_HD static inline __host__ __device__
#endif

// Nearest even; a NaN stays one.
EMUCUDA_HD unsigned short emucuda_to_bf16(float value) {
  unsigned bits = __builtin_bit_cast(unsigned, value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct __nv_bfloat16_raw {
  unsigned short x;
};
struct __nv_bfloat162_raw {
  unsigned short x, y;
};

struct __attribute__((aligned(2))) __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  __host__ __device__ __nv_bfloat16(float value) : bits(emucuda_to_bf16((float)value)) {}
  __host__ __device__ __nv_bfloat16(double value) : bits(emucuda_to_bf16((float)value)) {}
  __host__ __device__ __nv_bfloat16(int value) : __nv_bfloat16((float)value) {}
  __host__ __device__ __nv_bfloat16(unsigned value) : __nv_bfloat16((float)value) {}
  __host__ __device__ __nv_bfloat16(long long value) : __nv_bfloat16((double)value) {}
  __host__ __device__ __nv_bfloat16(const __nv_bfloat16_raw& raw) : bits(raw.x) {}
  __host__ __device__ operator float() const { return value(); }
  __host__ __device__ operator __nv_bfloat16_raw() const { return {bits}; }
  __host__ __device__ float value() const { return __builtin_bit_cast(float, (unsigned)bits << 16); }
};
typedef __nv_bfloat16 nv_bfloat16;

struct __attribute__((aligned(4))) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  __host__ __device__ __nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) : x(a), y(b) {}
};
typedef __nv_bfloat162 nv_bfloat162;

EMUCUDA_HD float __bfloat162float(__nv_bfloat16 a) { return (float)a.value(); }
EMUCUDA_HD __nv_bfloat16 __float2bfloat16(float a) { return __nv_bfloat16(a); }
EMUCUDA_HD __nv_bfloat16 __float2bfloat16_rn(float a) { return __nv_bfloat16(a); }
EMUCUDA_HD __nv_bfloat16 __double2bfloat16(double a) { return __nv_bfloat16(a); }
EMUCUDA_HD __nv_bfloat16 __int2bfloat16_rn(int a) { return __nv_bfloat16(a); }
EMUCUDA_HD __nv_bfloat16 __uint2bfloat16_rn(unsigned a) { return __nv_bfloat16(a); }
EMUCUDA_HD int __bfloat162int_rz(__nv_bfloat16 a) { return (int)a.value(); }
EMUCUDA_HD int __bfloat162int_rn(__nv_bfloat16 a) { return (int)__builtin_rintf(__bfloat162float(a)); }
EMUCUDA_HD __nv_bfloat16 __ushort_as_bfloat16(unsigned short a) { return __nv_bfloat16(__nv_bfloat16_raw{a}); }
EMUCUDA_HD __nv_bfloat16 __short_as_bfloat16(short a) { return __ushort_as_bfloat16((unsigned short)a); }
EMUCUDA_HD unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.bits; }
EMUCUDA_HD short __bfloat16_as_short(__nv_bfloat16 a) { return (short)a.bits; }
EMUCUDA_HD __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
EMUCUDA_HD __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
EMUCUDA_HD __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
EMUCUDA_HD __nv_bfloat162 __float2bfloat162_rn(float a) { return {__nv_bfloat16(a), __nv_bfloat16(a)}; }
EMUCUDA_HD __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {__nv_bfloat16(a), __nv_bfloat16(b)}; }
EMUCUDA_HD __nv_bfloat162 __float22bfloat162_rn(float2 a) { return {__nv_bfloat16(a.x), __nv_bfloat16(a.y)}; }
EMUCUDA_HD float2 __bfloat1622float2(__nv_bfloat162 a) { return {(float)a.x.value(), (float)a.y.value()}; }
EMUCUDA_HD __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
EMUCUDA_HD __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
EMUCUDA_HD float __low2float(__nv_bfloat162 a) { return (float)a.x.value(); }
EMUCUDA_HD float __high2float(__nv_bfloat162 a) { return (float)a.y.value(); }
EMUCUDA_HD __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return {a.x, a.x}; }
EMUCUDA_HD __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return {a.y, a.y}; }
EMUCUDA_HD __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 a) { return {a.y, a.x}; }

#define EMUCUDA_OPERATION(name, op)                                                          \
  EMUCUDA_HD __nv_bfloat16 __h##name(__nv_bfloat16 a, __nv_bfloat16 b) { return a.value() op b.value(); }          \
  EMUCUDA_HD __nv_bfloat162 __h##name##2(__nv_bfloat162 a, __nv_bfloat162 b) {                                     \
    return {__h##name(a.x, b.x), __h##name(a.y, b.y)};                                       \
  }                                                                                          \
  EMUCUDA_HD __nv_bfloat16 operator op(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __h##name(a, b); } \
  EMUCUDA_HD __nv_bfloat162 operator op(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __h##name##2(a, b); } \
  EMUCUDA_HD __nv_bfloat16& operator op##=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = __h##name(a, b); } \
  EMUCUDA_HD __nv_bfloat162& operator op##=(__nv_bfloat162& a, const __nv_bfloat162& b) { return a = __h##name##2(a, b); }
EMUCUDA_OPERATION(add, +)
EMUCUDA_OPERATION(sub, -)
EMUCUDA_OPERATION(mul, *)
EMUCUDA_OPERATION(div, /)
#undef EMUCUDA_OPERATION
EMUCUDA_HD __nv_bfloat162 __h2div(__nv_bfloat162 a, __nv_bfloat162 b) { return __hdiv2(a, b); }
EMUCUDA_HD __nv_bfloat16 __hadd_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hadd(a, b); }
EMUCUDA_HD __nv_bfloat16 __hmul_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmul(a, b); }
EMUCUDA_HD __nv_bfloat16 operator-(const __nv_bfloat16& a) { return __nv_bfloat16(-a.value()); }
EMUCUDA_HD __nv_bfloat162 operator-(const __nv_bfloat162& a) { return {-a.x, -a.y}; }
EMUCUDA_HD __nv_bfloat16 __hneg(__nv_bfloat16 a) { return -a; }
EMUCUDA_HD __nv_bfloat162 __hneg2(__nv_bfloat162 a) { return -a; }
EMUCUDA_HD __nv_bfloat16 __habs(__nv_bfloat16 a) { return __ushort_as_bfloat16(a.bits & 0x7fff); }
EMUCUDA_HD __nv_bfloat162 __habs2(__nv_bfloat162 a) { return {__habs(a.x), __habs(a.y)}; }
// The product of two halves is exact in double, and so is its sum with a third in 53 bits but for
// cases that round the same way.
EMUCUDA_HD __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __nv_bfloat16((double)a.value() * (double)b.value() + (double)c.value());
}
EMUCUDA_HD __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

#define EMUCUDA_COMPARE(name, op)                                                          \
  EMUCUDA_HD bool __h##name(__nv_bfloat16 a, __nv_bfloat16 b) { return a.value() op b.value(); }          \
  EMUCUDA_HD bool operator op(const __nv_bfloat16& a, const __nv_bfloat16& b) { return a.value() op b.value(); }
EMUCUDA_COMPARE(eq, ==)
EMUCUDA_COMPARE(ne, !=)
EMUCUDA_COMPARE(lt, <)
EMUCUDA_COMPARE(le, <=)
EMUCUDA_COMPARE(gt, >)
EMUCUDA_COMPARE(ge, >=)
#undef EMUCUDA_COMPARE
EMUCUDA_HD bool __hisnan(__nv_bfloat16 a) { return a.value() != a.value(); }
EMUCUDA_HD __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return __hisnan(a) || a < b ? b : a; }
EMUCUDA_HD __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return __hisnan(a) || b < a ? b : a; }
EMUCUDA_HD __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
EMUCUDA_HD __nv_bfloat162 __hmin2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }

#define EMUCUDA_FUNCTION(name, call)                                                        \
  static inline __device__ __nv_bfloat16 h##name(__nv_bfloat16 a) { return __nv_bfloat16(call(__bfloat162float(a))); } \
  static inline __device__ __nv_bfloat162 h2##name(__nv_bfloat162 a) { return {h##name(a.x), h##name(a.y)}; }
EMUCUDA_FUNCTION(exp, expf)
EMUCUDA_FUNCTION(exp2, exp2f)
EMUCUDA_FUNCTION(log, logf)
EMUCUDA_FUNCTION(log2, log2f)
EMUCUDA_FUNCTION(sqrt, sqrtf)
EMUCUDA_FUNCTION(rsqrt, rsqrtf)
EMUCUDA_FUNCTION(rcp, 1.0f /)
EMUCUDA_FUNCTION(sin, sinf)
EMUCUDA_FUNCTION(cos, cosf)
EMUCUDA_FUNCTION(tanh, tanhf)
EMUCUDA_FUNCTION(floor, floorf)
EMUCUDA_FUNCTION(ceil, ceilf)
#undef EMUCUDA_FUNCTION

#define EMUCUDA_SHUFFLE(name, T)                                                          \
  static inline __device__ __nv_bfloat16 name(unsigned mask, __nv_bfloat16 value, T lane, int width = 32) { \
    return __ushort_as_bfloat16((unsigned short)name(mask, (unsigned)value.bits, lane, width)); \
  }                                                                                       \
  static inline __device__ __nv_bfloat162 name(unsigned mask, __nv_bfloat162 value, T lane, int width = 32) { \
    return __builtin_bit_cast(__nv_bfloat162, name(mask, __builtin_bit_cast(unsigned, value), lane, width)); \
  }
EMUCUDA_SHUFFLE(__shfl_sync, int)
EMUCUDA_SHUFFLE(__shfl_xor_sync, int)
EMUCUDA_SHUFFLE(__shfl_up_sync, unsigned)
EMUCUDA_SHUFFLE(__shfl_down_sync, unsigned)
#undef EMUCUDA_SHUFFLE
EMUCUDA_HD __nv_bfloat16 __ldg(const __nv_bfloat16* p) { return *p; }
EMUCUDA_HD __nv_bfloat162 __ldg(const __nv_bfloat162* p) { return *p; }

// By compare-and-swap of the word; other threads see one step.
static inline __device__ __nv_bfloat162 atomicAdd(__nv_bfloat162* p, __nv_bfloat162 value) {
  unsigned *word = (unsigned*)p, old = *(volatile unsigned*)word, expected;
  do {
    expected = old;
    old = atomicCAS(word, expected, __builtin_bit_cast(unsigned, __builtin_bit_cast(__nv_bfloat162, expected) + value));
  } while (old != expected);
  return __builtin_bit_cast(__nv_bfloat162, old);
}
static inline __device__ __nv_bfloat16 atomicAdd(__nv_bfloat16* p, __nv_bfloat16 value) {
  unsigned short *word = (unsigned short*)p, old = *(volatile unsigned short*)word, expected;
  do {
    expected = old;
    old = atomicCAS(word, expected, (__ushort_as_bfloat16(expected) + value).bits);
  } while (old != expected);
  return __ushort_as_bfloat16(old);
}
EMUCUDA_CACHED_STRUCT(__nv_bfloat16)
EMUCUDA_CACHED_STRUCT(__nv_bfloat162)
