// A float of 16 bits and a pair of them. cuda_fp16.h and cuda_bf16.h include this pattern, each with
// its own names. Arithmetic is computed in fp32 and rounded to nearest even, as often as on a GPU.
//
//   EMUCUDA_NAME, EMUCUDA_NAME2   half, half2: parts of the names of conversions
//   EMUCUDA_T, EMUCUDA_T2         __half, __half2, and with _RAW their raw bits
//   EMUCUDA_ATOMIC_ADD            the library's atomic addition
//   EMUCUDA_TO_BITS(x)            bits of a float or double; EMUCUDA_TO_FLOAT(bits) is the reverse

#define EMUCUDA_JOIN_(a, b, c) a##b##c
#define EMUCUDA_JOIN(a, b, c) EMUCUDA_JOIN_(a, b, c)
#define EMUCUDA_1(before, after) EMUCUDA_JOIN(before, EMUCUDA_NAME, after)
#define EMUCUDA_2(before, after) EMUCUDA_JOIN(before, EMUCUDA_NAME2, after)
#define EMUCUDA_RAW EMUCUDA_JOIN(EMUCUDA_T, _raw, )
#define EMUCUDA_RAW2 EMUCUDA_JOIN(EMUCUDA_T2, _raw, )
#define EMUCUDA_HD static inline __host__ __device__

struct EMUCUDA_RAW {
  unsigned short x;
};
struct EMUCUDA_RAW2 {
  unsigned short x, y;
};

struct __attribute__((aligned(2))) EMUCUDA_T {
  unsigned short bits;
  EMUCUDA_T() = default;
  __host__ __device__ EMUCUDA_T(float value) : bits(EMUCUDA_TO_BITS(value)) {}
  __host__ __device__ EMUCUDA_T(double value) : bits(EMUCUDA_TO_BITS(value)) {}
  __host__ __device__ EMUCUDA_T(int value) : EMUCUDA_T((float)value) {}
  __host__ __device__ EMUCUDA_T(unsigned value) : EMUCUDA_T((float)value) {}
  __host__ __device__ EMUCUDA_T(long long value) : EMUCUDA_T((double)value) {}
  __host__ __device__ EMUCUDA_T(const EMUCUDA_RAW& raw) : bits(raw.x) {}
  __host__ __device__ operator float() const { return value(); }
  __host__ __device__ operator EMUCUDA_RAW() const { return {bits}; }
  __host__ __device__ float value() const { return EMUCUDA_TO_FLOAT(bits); }
};

struct __attribute__((aligned(4))) EMUCUDA_T2 {
  EMUCUDA_T x, y;
  EMUCUDA_T2() = default;
  __host__ __device__ EMUCUDA_T2(EMUCUDA_T a, EMUCUDA_T b) : x(a), y(b) {}
};

EMUCUDA_HD float EMUCUDA_1(__, 2float)(EMUCUDA_T a) { return a.value(); }
EMUCUDA_HD EMUCUDA_T EMUCUDA_1(__float2, )(float a) { return EMUCUDA_T(a); }
EMUCUDA_HD EMUCUDA_T EMUCUDA_1(__float2, _rn)(float a) { return EMUCUDA_T(a); }
EMUCUDA_HD EMUCUDA_T EMUCUDA_1(__double2, )(double a) { return EMUCUDA_T(a); }
EMUCUDA_HD EMUCUDA_T EMUCUDA_1(__int2, _rn)(int a) { return EMUCUDA_T(a); }
EMUCUDA_HD EMUCUDA_T EMUCUDA_1(__uint2, _rn)(unsigned a) { return EMUCUDA_T(a); }
EMUCUDA_HD int EMUCUDA_1(__, 2int_rz)(EMUCUDA_T a) { return (int)a.value(); }
EMUCUDA_HD int EMUCUDA_1(__, 2int_rn)(EMUCUDA_T a) { return (int)__builtin_rintf(a.value()); }
EMUCUDA_HD EMUCUDA_T EMUCUDA_1(__ushort_as_, )(unsigned short a) { return EMUCUDA_T(EMUCUDA_RAW{a}); }
EMUCUDA_HD EMUCUDA_T EMUCUDA_1(__short_as_, )(short a) { return EMUCUDA_1(__ushort_as_, )((unsigned short)a); }
EMUCUDA_HD unsigned short EMUCUDA_1(__, _as_ushort)(EMUCUDA_T a) { return a.bits; }
EMUCUDA_HD short EMUCUDA_1(__, _as_short)(EMUCUDA_T a) { return (short)a.bits; }
EMUCUDA_HD EMUCUDA_T2 EMUCUDA_2(__halves2, )(EMUCUDA_T a, EMUCUDA_T b) { return {a, b}; }
EMUCUDA_HD EMUCUDA_T2 EMUCUDA_2(make_, )(EMUCUDA_T a, EMUCUDA_T b) { return {a, b}; }
EMUCUDA_HD EMUCUDA_T2 EMUCUDA_2(EMUCUDA_1(__, 2), )(EMUCUDA_T a) { return {a, a}; }
EMUCUDA_HD EMUCUDA_T2 EMUCUDA_2(__float2, _rn)(float a) { return {EMUCUDA_T(a), EMUCUDA_T(a)}; }
EMUCUDA_HD EMUCUDA_T2 EMUCUDA_2(__floats2, _rn)(float a, float b) { return {EMUCUDA_T(a), EMUCUDA_T(b)}; }
EMUCUDA_HD EMUCUDA_T2 EMUCUDA_2(__float22, _rn)(float2 a) { return {EMUCUDA_T(a.x), EMUCUDA_T(a.y)}; }
EMUCUDA_HD float2 EMUCUDA_2(__, 2float2)(EMUCUDA_T2 a) { return {a.x.value(), a.y.value()}; }
EMUCUDA_HD EMUCUDA_T EMUCUDA_1(__low2, )(EMUCUDA_T2 a) { return a.x; }
EMUCUDA_HD EMUCUDA_T EMUCUDA_1(__high2, )(EMUCUDA_T2 a) { return a.y; }
EMUCUDA_HD float __low2float(EMUCUDA_T2 a) { return a.x.value(); }
EMUCUDA_HD float __high2float(EMUCUDA_T2 a) { return a.y.value(); }
EMUCUDA_HD EMUCUDA_T2 EMUCUDA_2(__low2, )(EMUCUDA_T2 a) { return {a.x, a.x}; }
EMUCUDA_HD EMUCUDA_T2 EMUCUDA_2(__high2, )(EMUCUDA_T2 a) { return {a.y, a.y}; }
EMUCUDA_HD EMUCUDA_T2 __lowhigh2highlow(EMUCUDA_T2 a) { return {a.y, a.x}; }

#define EMUCUDA_OPERATION(name, op)                                                          \
  EMUCUDA_HD EMUCUDA_T __h##name(EMUCUDA_T a, EMUCUDA_T b) { return a.value() op b.value(); }          \
  EMUCUDA_HD EMUCUDA_T2 __h##name##2(EMUCUDA_T2 a, EMUCUDA_T2 b) {                                     \
    return {__h##name(a.x, b.x), __h##name(a.y, b.y)};                                       \
  }                                                                                          \
  EMUCUDA_HD EMUCUDA_T operator op(const EMUCUDA_T& a, const EMUCUDA_T& b) { return __h##name(a, b); } \
  EMUCUDA_HD EMUCUDA_T2 operator op(const EMUCUDA_T2& a, const EMUCUDA_T2& b) { return __h##name##2(a, b); } \
  EMUCUDA_HD EMUCUDA_T& operator op##=(EMUCUDA_T& a, const EMUCUDA_T& b) { return a = __h##name(a, b); } \
  EMUCUDA_HD EMUCUDA_T2& operator op##=(EMUCUDA_T2& a, const EMUCUDA_T2& b) { return a = __h##name##2(a, b); }
EMUCUDA_OPERATION(add, +)
EMUCUDA_OPERATION(sub, -)
EMUCUDA_OPERATION(mul, *)
EMUCUDA_OPERATION(div, /)
#undef EMUCUDA_OPERATION
EMUCUDA_HD EMUCUDA_T2 __h2div(EMUCUDA_T2 a, EMUCUDA_T2 b) { return __hdiv2(a, b); }
EMUCUDA_HD EMUCUDA_T __hadd_rn(EMUCUDA_T a, EMUCUDA_T b) { return __hadd(a, b); }
EMUCUDA_HD EMUCUDA_T __hmul_rn(EMUCUDA_T a, EMUCUDA_T b) { return __hmul(a, b); }
EMUCUDA_HD EMUCUDA_T operator-(const EMUCUDA_T& a) { return EMUCUDA_T(-a.value()); }
EMUCUDA_HD EMUCUDA_T2 operator-(const EMUCUDA_T2& a) { return {-a.x, -a.y}; }
EMUCUDA_HD EMUCUDA_T __hneg(EMUCUDA_T a) { return -a; }
EMUCUDA_HD EMUCUDA_T2 __hneg2(EMUCUDA_T2 a) { return -a; }
EMUCUDA_HD EMUCUDA_T __habs(EMUCUDA_T a) { return EMUCUDA_1(__ushort_as_, )(a.bits & 0x7fff); }
EMUCUDA_HD EMUCUDA_T2 __habs2(EMUCUDA_T2 a) { return {__habs(a.x), __habs(a.y)}; }
// The product of two halves is exact in double, and so is its sum with a third in 53 bits but for
// cases that round the same way.
EMUCUDA_HD EMUCUDA_T __hfma(EMUCUDA_T a, EMUCUDA_T b, EMUCUDA_T c) {
  return EMUCUDA_T((double)a.value() * (double)b.value() + (double)c.value());
}
EMUCUDA_HD EMUCUDA_T2 __hfma2(EMUCUDA_T2 a, EMUCUDA_T2 b, EMUCUDA_T2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

#define EMUCUDA_COMPARE(name, op)                                                          \
  EMUCUDA_HD bool __h##name(EMUCUDA_T a, EMUCUDA_T b) { return a.value() op b.value(); }          \
  EMUCUDA_HD bool operator op(const EMUCUDA_T& a, const EMUCUDA_T& b) { return a.value() op b.value(); }
EMUCUDA_COMPARE(eq, ==)
EMUCUDA_COMPARE(ne, !=)
EMUCUDA_COMPARE(lt, <)
EMUCUDA_COMPARE(le, <=)
EMUCUDA_COMPARE(gt, >)
EMUCUDA_COMPARE(ge, >=)
#undef EMUCUDA_COMPARE
EMUCUDA_HD bool __hisnan(EMUCUDA_T a) { return a.value() != a.value(); }
EMUCUDA_HD EMUCUDA_T __hmax(EMUCUDA_T a, EMUCUDA_T b) { return __hisnan(a) || a < b ? b : a; }
EMUCUDA_HD EMUCUDA_T __hmin(EMUCUDA_T a, EMUCUDA_T b) { return __hisnan(a) || b < a ? b : a; }
EMUCUDA_HD EMUCUDA_T2 __hmax2(EMUCUDA_T2 a, EMUCUDA_T2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
EMUCUDA_HD EMUCUDA_T2 __hmin2(EMUCUDA_T2 a, EMUCUDA_T2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }

#define EMUCUDA_FUNCTION(name, call)                                                        \
  static inline __device__ EMUCUDA_T h##name(EMUCUDA_T a) { return EMUCUDA_T(call(a.value())); } \
  static inline __device__ EMUCUDA_T2 h2##name(EMUCUDA_T2 a) { return {h##name(a.x), h##name(a.y)}; }
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
  static inline __device__ EMUCUDA_T name(unsigned mask, EMUCUDA_T value, T lane, int width = 32) { \
    return EMUCUDA_1(__ushort_as_, )((unsigned short)name(mask, (unsigned)value.bits, lane, width)); \
  }                                                                                       \
  static inline __device__ EMUCUDA_T2 name(unsigned mask, EMUCUDA_T2 value, T lane, int width = 32) { \
    return __builtin_bit_cast(EMUCUDA_T2, name(mask, __builtin_bit_cast(unsigned, value), lane, width)); \
  }
EMUCUDA_SHUFFLE(__shfl_sync, int)
EMUCUDA_SHUFFLE(__shfl_xor_sync, int)
EMUCUDA_SHUFFLE(__shfl_up_sync, unsigned)
EMUCUDA_SHUFFLE(__shfl_down_sync, unsigned)
#undef EMUCUDA_SHUFFLE
EMUCUDA_HD EMUCUDA_T __ldg(const EMUCUDA_T* p) { return *p; }
EMUCUDA_HD EMUCUDA_T2 __ldg(const EMUCUDA_T2* p) { return *p; }

extern "C" __device__ void EMUCUDA_ATOMIC_ADD(void* p, const void* operand, const void*, void* old,
                                              int bytes, int order);
static inline __device__ EMUCUDA_T2 atomicAdd(EMUCUDA_T2* p, EMUCUDA_T2 value) {
  EMUCUDA_T2 old;
  EMUCUDA_ATOMIC_ADD(p, &value, nullptr, &old, 4, 0);
  return old;
}
static inline __device__ EMUCUDA_T atomicAdd(EMUCUDA_T* p, EMUCUDA_T value) {
  EMUCUDA_T old;
  EMUCUDA_ATOMIC_ADD(p, &value, nullptr, &old, 2, 0);
  return old;
}
EMUCUDA_CACHED_STRUCT(EMUCUDA_T)
EMUCUDA_CACHED_STRUCT(EMUCUDA_T2)

#undef EMUCUDA_JOIN_
#undef EMUCUDA_JOIN
#undef EMUCUDA_1
#undef EMUCUDA_2
#undef EMUCUDA_RAW
#undef EMUCUDA_RAW2
#undef EMUCUDA_HD
#undef EMUCUDA_NAME
#undef EMUCUDA_NAME2
#undef EMUCUDA_T
#undef EMUCUDA_T2
#undef EMUCUDA_ATOMIC_ADD
#undef EMUCUDA_TO_BITS
#undef EMUCUDA_TO_FLOAT
