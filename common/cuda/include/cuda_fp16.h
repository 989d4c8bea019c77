#pragma once
// half and half2, on clang's _Float16: conversions round to nearest even, arithmetic rounds once.

#include "cuda_runtime.h"

#define EMUCUDA_HD static inline __host__ __device__

struct __half_raw {
  unsigned short x;
};
struct __half2_raw {
  unsigned short x, y;
};

struct __attribute__((aligned(2))) __half {
  unsigned short bits;
  __half() = default;
  __host__ __device__ __half(float value) : bits(__builtin_bit_cast(unsigned short, (_Float16)value)) {}
  __host__ __device__ __half(double value) : bits(__builtin_bit_cast(unsigned short, (_Float16)value)) {}
  __host__ __device__ __half(int value) : __half((float)value) {}
  __host__ __device__ __half(unsigned value) : __half((float)value) {}
  __host__ __device__ __half(long long value) : __half((double)value) {}
  __host__ __device__ __half(_Float16 value) : bits(__builtin_bit_cast(unsigned short, value)) {}
  __host__ __device__ __half(const __half_raw& raw) : bits(raw.x) {}
  __host__ __device__ operator float() const { return (float)__builtin_bit_cast(_Float16, bits); }
  __host__ __device__ operator __half_raw() const { return {bits}; }
  __host__ __device__ _Float16 value() const { return __builtin_bit_cast(_Float16, bits); }
};
typedef __half half;
typedef __half nv_half;

struct __attribute__((aligned(4))) __half2 {
  __half x, y;
  __half2() = default;
  __host__ __device__ __half2(__half a, __half b) : x(a), y(b) {}
};
typedef __half2 half2;
typedef __half2 nv_half2;

EMUCUDA_HD float __half2float(__half a) { return (float)a.value(); }
EMUCUDA_HD __half __float2half(float a) { return __half(a); }
EMUCUDA_HD __half __float2half_rn(float a) { return __half(a); }
EMUCUDA_HD __half __double2half(double a) { return __half(a); }
EMUCUDA_HD __half __int2half_rn(int a) { return __half(a); }
EMUCUDA_HD __half __uint2half_rn(unsigned a) { return __half(a); }
EMUCUDA_HD int __half2int_rz(__half a) { return (int)a.value(); }
EMUCUDA_HD int __half2int_rn(__half a) { return (int)__builtin_rintf(__half2float(a)); }
EMUCUDA_HD __half __ushort_as_half(unsigned short a) { return __half(__half_raw{a}); }
EMUCUDA_HD __half __short_as_half(short a) { return __ushort_as_half((unsigned short)a); }
EMUCUDA_HD unsigned short __half_as_ushort(__half a) { return a.bits; }
EMUCUDA_HD short __half_as_short(__half a) { return (short)a.bits; }
EMUCUDA_HD __half2 __halves2half2(__half a, __half b) { return {a, b}; }
EMUCUDA_HD __half2 make_half2(__half a, __half b) { return {a, b}; }
EMUCUDA_HD __half2 __half2half2(__half a) { return {a, a}; }
EMUCUDA_HD __half2 __float2half2_rn(float a) { return {__half(a), __half(a)}; }
EMUCUDA_HD __half2 __floats2half2_rn(float a, float b) { return {__half(a), __half(b)}; }
EMUCUDA_HD __half2 __float22half2_rn(float2 a) { return {__half(a.x), __half(a.y)}; }
EMUCUDA_HD float2 __half22float2(__half2 a) { return {(float)a.x.value(), (float)a.y.value()}; }
EMUCUDA_HD __half __low2half(__half2 a) { return a.x; }
EMUCUDA_HD __half __high2half(__half2 a) { return a.y; }
EMUCUDA_HD float __low2float(__half2 a) { return (float)a.x.value(); }
EMUCUDA_HD float __high2float(__half2 a) { return (float)a.y.value(); }
EMUCUDA_HD __half2 __low2half2(__half2 a) { return {a.x, a.x}; }
EMUCUDA_HD __half2 __high2half2(__half2 a) { return {a.y, a.y}; }
EMUCUDA_HD __half2 __lowhigh2highlow(__half2 a) { return {a.y, a.x}; }

#define EMUCUDA_OPERATION(name, op)                                                          \
  EMUCUDA_HD __half __h##name(__half a, __half b) { return a.value() op b.value(); }          \
  EMUCUDA_HD __half2 __h##name##2(__half2 a, __half2 b) {                                     \
    return {__h##name(a.x, b.x), __h##name(a.y, b.y)};                                       \
  }                                                                                          \
  EMUCUDA_HD __half operator op(const __half& a, const __half& b) { return __h##name(a, b); } \
  EMUCUDA_HD __half2 operator op(const __half2& a, const __half2& b) { return __h##name##2(a, b); } \
  EMUCUDA_HD __half& operator op##=(__half& a, const __half& b) { return a = __h##name(a, b); } \
  EMUCUDA_HD __half2& operator op##=(__half2& a, const __half2& b) { return a = __h##name##2(a, b); }
EMUCUDA_OPERATION(add, +)
EMUCUDA_OPERATION(sub, -)
EMUCUDA_OPERATION(mul, *)
EMUCUDA_OPERATION(div, /)
#undef EMUCUDA_OPERATION
EMUCUDA_HD __half2 __h2div(__half2 a, __half2 b) { return __hdiv2(a, b); }
EMUCUDA_HD __half __hadd_rn(__half a, __half b) { return __hadd(a, b); }
EMUCUDA_HD __half __hmul_rn(__half a, __half b) { return __hmul(a, b); }
EMUCUDA_HD __half operator-(const __half& a) { return __half(-a.value()); }
EMUCUDA_HD __half2 operator-(const __half2& a) { return {-a.x, -a.y}; }
EMUCUDA_HD __half __hneg(__half a) { return -a; }
EMUCUDA_HD __half2 __hneg2(__half2 a) { return -a; }
EMUCUDA_HD __half __habs(__half a) { return __ushort_as_half(a.bits & 0x7fff); }
EMUCUDA_HD __half2 __habs2(__half2 a) { return {__habs(a.x), __habs(a.y)}; }
// The product of two halves is exact in double, and so is its sum with a third in 53 bits but for
// cases that round the same way.
EMUCUDA_HD __half __hfma(__half a, __half b, __half c) {
  return __half((double)a.value() * (double)b.value() + (double)c.value());
}
EMUCUDA_HD __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

#define EMUCUDA_COMPARE(name, op)                                                          \
  EMUCUDA_HD bool __h##name(__half a, __half b) { return a.value() op b.value(); }          \
  EMUCUDA_HD bool operator op(const __half& a, const __half& b) { return a.value() op b.value(); }
EMUCUDA_COMPARE(eq, ==)
EMUCUDA_COMPARE(ne, !=)
EMUCUDA_COMPARE(lt, <)
EMUCUDA_COMPARE(le, <=)
EMUCUDA_COMPARE(gt, >)
EMUCUDA_COMPARE(ge, >=)
#undef EMUCUDA_COMPARE
EMUCUDA_HD bool __hisnan(__half a) { return a.value() != a.value(); }
EMUCUDA_HD __half __hmax(__half a, __half b) { return __hisnan(a) || a < b ? b : a; }
EMUCUDA_HD __half __hmin(__half a, __half b) { return __hisnan(a) || b < a ? b : a; }
EMUCUDA_HD __half2 __hmax2(__half2 a, __half2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
EMUCUDA_HD __half2 __hmin2(__half2 a, __half2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }

#define EMUCUDA_FUNCTION(name, call)                                                        \
  static inline __device__ __half h##name(__half a) { return __half(call(__half2float(a))); } \
  static inline __device__ __half2 h2##name(__half2 a) { return {h##name(a.x), h##name(a.y)}; }
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
  static inline __device__ __half name(unsigned mask, __half value, T lane, int width = 32) { \
    return __ushort_as_half((unsigned short)name(mask, (unsigned)value.bits, lane, width)); \
  }                                                                                       \
  static inline __device__ __half2 name(unsigned mask, __half2 value, T lane, int width = 32) { \
    return __builtin_bit_cast(__half2, name(mask, __builtin_bit_cast(unsigned, value), lane, width)); \
  }
EMUCUDA_SHUFFLE(__shfl_sync, int)
EMUCUDA_SHUFFLE(__shfl_xor_sync, int)
EMUCUDA_SHUFFLE(__shfl_up_sync, unsigned)
EMUCUDA_SHUFFLE(__shfl_down_sync, unsigned)
#undef EMUCUDA_SHUFFLE
EMUCUDA_HD __half __ldg(const __half* p) { return *p; }
EMUCUDA_HD __half2 __ldg(const __half2* p) { return *p; }

// By compare-and-swap of the word; other threads see one step.
static inline __device__ __half2 atomicAdd(__half2* p, __half2 value) {
  unsigned *word = (unsigned*)p, old = *(volatile unsigned*)word, expected;
  do {
    expected = old;
    old = atomicCAS(word, expected, __builtin_bit_cast(unsigned, __builtin_bit_cast(__half2, expected) + value));
  } while (old != expected);
  return __builtin_bit_cast(__half2, old);
}
static inline __device__ __half atomicAdd(__half* p, __half value) {
  unsigned short *word = (unsigned short*)p, old = *(volatile unsigned short*)word, expected;
  do {
    expected = old;
    old = atomicCAS(word, expected, (__ushort_as_half(expected) + value).bits);
  } while (old != expected);
  return __ushort_as_half(old);
}
EMUCUDA_CACHED_STRUCT(__half)
EMUCUDA_CACHED_STRUCT(__half2)
