// CUDA's device math, under the names that clang's headers call (libdevice's). Values are those of
// the host's C library, which are as accurate as a GPU's or better, and not the same in the last
// bits. emucuda_retarget makes instructions of the simplest ones itself.

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

// NOLINTBEGIN(bugprone-reserved-identifier,bugprone-macro-parentheses): clang calls these names
extern "C" {
void emucuda_store(void* p, const void* value, int bytes, int align, int line, const char* file);

#define F1(name, expression)                          \
  double __nv_##name(double x) { return expression; } \
  float __nv_##name##f(float x) { return static_cast<float>(expression); }
#define F2(name, expression)                                    \
  double __nv_##name(double x, double y) { return expression; } \
  float __nv_##name##f(float x, float y) { return static_cast<float>(expression); }
#define F3(name, expression)                                              \
  double __nv_##name(double x, double y, double z) { return expression; } \
  float __nv_##name##f(float x, float y, float z) { return static_cast<float>(expression); }

static const double kPi = 3.141592653589793238;
// sin and cos of pi times x, exact at multiples of one half.
static double sinpi(double x) {
  const double r = std::remainder(x, 2.0);
  if (r == std::floor(r)) return std::copysign(0.0, x);
  return std::fabs(r) == 0.5 ? std::copysign(1.0, r) : std::sin(kPi * r);
}
static double cospi(double x) {
  const double r = std::fabs(std::remainder(x, 2.0));
  return r == 0.5 ? 0.0 : std::cos(kPi * r);
}
// Inverse of the normal distribution's integral, by a rational start (Acklam), then Halley's
// method.
static double normal_quantile(double p) {
  if (!(p > 0) || !(p < 1)) {
    if (p == 0) return -std::numeric_limits<double>::infinity();
    return p == 1 ? std::numeric_limits<double>::infinity()
                  : std::numeric_limits<double>::quiet_NaN();
  }
  const double q = std::min(p, 1 - p), r = std::sqrt(-2 * std::log(q));
  double x = -(r - (2.515517 + r * (0.802853 + r * 0.010328)) /
                       (1 + r * (1.432788 + r * (0.189269 + r * 0.001308))));
  for (int i = 0; i < 4; ++i) {
    const double e = 0.5 * std::erfc(-x / std::sqrt(2.0)) - q;
    const double u = e * std::sqrt(2 * kPi) * std::exp(x * x / 2);
    x -= u / (1 + x * u / 2);
  }
  return p < 0.5 ? x : -x;
}

// clang-format off
F1(acos, std::acos(x)) F1(acosh, std::acosh(x)) F1(asin, std::asin(x)) F1(asinh, std::asinh(x))
F1(atan, std::atan(x)) F1(atanh, std::atanh(x)) F1(cbrt, std::cbrt(x)) F1(ceil, std::ceil(x))
F1(cos, std::cos(x)) F1(cosh, std::cosh(x)) F1(cospi, cospi(x)) F1(erf, std::erf(x))
F1(erfc, std::erfc(x)) F1(erfcx, std::exp(static_cast<double>(x) * x) * std::erfc(static_cast<double>(x)))
F1(erfinv, normal_quantile((static_cast<double>(x) + 1) / 2) / std::sqrt(2.0))
F1(erfcinv, -normal_quantile(static_cast<double>(x) / 2) / std::sqrt(2.0))
F1(normcdf, 0.5 * std::erfc(-static_cast<double>(x) / std::sqrt(2.0))) F1(normcdfinv, normal_quantile(x))
F1(exp, std::exp(x)) F1(exp10, std::pow(10.0, static_cast<double>(x))) F1(exp2, std::exp2(x))
F1(expm1, std::expm1(x)) F1(fabs, std::fabs(x)) F1(floor, std::floor(x)) F1(j0, ::j0(x)) F1(j1, ::j1(x))
F1(lgamma, std::lgamma(x)) F1(log, std::log(x)) F1(log10, std::log10(x)) F1(log1p, std::log1p(x))
F1(log2, std::log2(x)) F1(logb, std::logb(x)) F1(nearbyint, std::nearbyint(x)) F1(rint, std::nearbyint(x))
F1(rcbrt, 1 / std::cbrt(x)) F1(round, std::round(x)) F1(rsqrt, 1 / std::sqrt(x)) F1(sin, std::sin(x))
F1(sinh, std::sinh(x)) F1(sinpi, sinpi(x)) F1(sqrt, std::sqrt(x)) F1(tan, std::tan(x)) F1(tanh, std::tanh(x))
F1(tgamma, std::tgamma(x)) F1(trunc, std::trunc(x)) F1(y0, ::y0(x)) F1(y1, ::y1(x))
F2(atan2, std::atan2(x, y)) F2(copysign, std::copysign(x, y)) F2(fdim, std::fdim(x, y))
F2(fmax, std::fmax(x, y)) F2(fmin, std::fmin(x, y)) F2(fmod, std::fmod(x, y)) F2(hypot, std::hypot(x, y))
F2(nextafter, std::nextafter(x, y)) F2(pow, std::pow(x, y)) F2(remainder, std::remainder(x, y))
F2(rhypot, 1 / std::hypot(x, y))
F3(fma, std::fma(x, y, z)) F3(norm3d, std::sqrt(x * x + y * y + z * z))
F3(rnorm3d, 1 / std::sqrt(x * x + y * y + z * z))
// clang-format on
#undef F1
#undef F2
#undef F3

#define FAST(name, expression) \
  float __nv_fast_##name(float x) { return expression; }
    // clang-format off
FAST(cosf, std::cos(x)) FAST(sinf, std::sin(x)) FAST(tanf, std::tan(x)) FAST(expf, std::exp(x))
FAST(exp10f, std::pow(10.0f, x)) FAST(logf, std::log(x)) FAST(log2f, std::log2(x)) FAST(log10f, std::log10(x))
// clang-format on
#undef FAST
                float __nv_fast_powf(float x, float y) {
  return std::pow(x, y);
}
float __nv_fast_fdividef(float x, float y) {
  return std::fabs(y) > 0x1p126f && std::isfinite(y) ? x * 0 : x / y;
}
double __nv_ldexp(double x, int n) { return std::ldexp(x, n); }
float __nv_ldexpf(float x, int n) { return std::ldexp(x, n); }
double __nv_scalbn(double x, int n) { return std::scalbn(x, n); }
float __nv_scalbnf(float x, int n) { return std::scalbn(x, n); }
double __nv_powi(double x, int n) { return std::pow(x, n); }
float __nv_powif(float x, int n) { return std::pow(x, static_cast<float>(n)); }
double __nv_jn(int n, double x) { return ::jn(n, x); }
float __nv_jnf(int n, float x) { return static_cast<float>(::jn(n, static_cast<double>(x))); }
double __nv_yn(int n, double x) { return ::yn(n, x); }
float __nv_ynf(int n, float x) { return static_cast<float>(::yn(n, static_cast<double>(x))); }
int __nv_ilogb(double x) { return std::ilogb(x); }
int __nv_ilogbf(float x) { return std::ilogb(x); }
long long __nv_llrint(double x) { return std::llrint(x); }
long long __nv_llrintf(float x) { return std::llrint(x); }
long long __nv_llround(double x) { return std::llround(x); }
long long __nv_llroundf(float x) { return std::llround(x); }
double __nv_nan(const char*) { return std::numeric_limits<double>::quiet_NaN(); }
float __nv_nanf(const char*) { return std::numeric_limits<float>::quiet_NaN(); }
float __nv_saturatef(float x) { return std::isnan(x) ? 0 : std::fmin(std::fmax(x, 0.0f), 1.0f); }
int __nv_isfinited(double x) { return std::isfinite(x); }
int __nv_finitef(float x) { return std::isfinite(x); }
int __nv_isinfd(double x) { return std::isinf(x); }
int __nv_isinff(float x) { return std::isinf(x); }
int __nv_isnand(double x) { return std::isnan(x); }
int __nv_isnanf(float x) { return std::isnan(x); }
int __nv_signbitd(double x) { return std::signbit(x); }
int __nv_signbitf(float x) { return std::signbit(x); }

// Results through pointers, which may lead to any memory.
#define TWO(name, T, first, second)                                       \
  void emucuda___nv_##name(T x, T* a, T* b, int line, const char* file) { \
    const T one = static_cast<T>(first), two = static_cast<T>(second);    \
    emucuda_store(a, &one, sizeof(T), sizeof(T), line, file);             \
    emucuda_store(b, &two, sizeof(T), sizeof(T), line, file);             \
  }
// clang-format off
TWO(sincos, double, std::sin(x), std::cos(x)) TWO(sincosf, float, std::sin(x), std::cos(x))
TWO(sincospi, double, sinpi(x), cospi(x)) TWO(sincospif, float, sinpi(x), cospi(x))
TWO(fast_sincosf, float, std::sin(x), std::cos(x))
// clang-format on
#undef TWO
#define ONE(name, T, U, call)                                    \
  T emucuda___nv_##name(T x, U* p, int line, const char* file) { \
    U second{};                                                  \
    const T first = call;                                        \
    emucuda_store(p, &second, sizeof(U), sizeof(U), line, file); \
    return first;                                                \
  }
    // clang-format off
ONE(frexp, double, int, std::frexp(x, &second)) ONE(frexpf, float, int, std::frexp(x, &second))
ONE(modf, double, double, std::modf(x, &second)) ONE(modff, float, float, std::modf(x, &second))
// clang-format on
#undef ONE

    // ---- integers ----

    int __nv_abs(int x) {
  return x < 0 ? static_cast<int>(0u - static_cast<unsigned>(x)) : x;
}
long long __nv_llabs(long long x) {
  return x < 0 ? static_cast<long long>(0ull - static_cast<unsigned long long>(x)) : x;
}
int __nv_max(int a, int b) { return a < b ? b : a; }
int __nv_min(int a, int b) { return b < a ? b : a; }
unsigned __nv_umax(unsigned a, unsigned b) { return a < b ? b : a; }
unsigned __nv_umin(unsigned a, unsigned b) { return b < a ? b : a; }
long long __nv_llmax(long long a, long long b) { return a < b ? b : a; }
long long __nv_llmin(long long a, long long b) { return b < a ? b : a; }
unsigned long long __nv_ullmax(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
unsigned long long __nv_ullmin(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
int __nv_clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
int __nv_clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
int __nv_ffs(int x) { return __builtin_ffs(x); }
int __nv_ffsll(long long x) { return __builtin_ffsll(x); }
int __nv_popc(int x) { return std::popcount(static_cast<unsigned>(x)); }
int __nv_popcll(long long x) { return std::popcount(static_cast<unsigned long long>(x)); }
int __nv_brev(int x) {
  unsigned in = static_cast<unsigned>(x), out = 0;
  for (int i = 0; i < 32; ++i, in >>= 1) out = out << 1 | (in & 1);
  return static_cast<int>(out);
}
long long __nv_brevll(long long x) {
  unsigned long long in = static_cast<unsigned long long>(x), out = 0;
  for (int i = 0; i < 64; ++i, in >>= 1) out = out << 1 | (in & 1);
  return static_cast<long long>(out);
}
int __nv_byte_perm(int a, int b, int selector) {
  const uint64_t bytes = static_cast<uint32_t>(a) | static_cast<uint64_t>(static_cast<uint32_t>(b))
                                                        << 32;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    const int choice = selector >> 4 * i & 15;
    auto byte = static_cast<uint32_t>(bytes >> 8 * (choice & 7) & 255);
    if ((choice & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    out |= byte << 8 * i;
  }
  return static_cast<int>(out);
}
int __nv_mul24(int a, int b) {
  return static_cast<int>((static_cast<int64_t>(a << 8) >> 8) *
                          (static_cast<int64_t>(b << 8) >> 8));
}
unsigned __nv_umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
int __nv_mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
unsigned __nv_umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
long long __nv_mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
unsigned long long __nv_umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
int __nv_hadd(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) + b) >> 1); }
int __nv_rhadd(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) + b + 1) >> 1); }
unsigned __nv_uhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) + b) >> 1);
}
unsigned __nv_urhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) + b + 1) >> 1);
}
int __nv_sad(int a, int b, int c) {
  return static_cast<int>(std::abs(static_cast<int64_t>(a) - b)) + c;
}
unsigned __nv_usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }

// ---- bits ----

int __nv_float_as_int(float x) { return std::bit_cast<int>(x); }
unsigned __nv_float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
float __nv_int_as_float(int x) { return std::bit_cast<float>(x); }
float __nv_uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
long long __nv_double_as_longlong(double x) { return std::bit_cast<long long>(x); }
double __nv_longlong_as_double(long long x) { return std::bit_cast<double>(x); }
int __nv_double2hiint(double x) { return static_cast<int>(std::bit_cast<uint64_t>(x) >> 32); }
int __nv_double2loint(double x) { return static_cast<int>(std::bit_cast<uint64_t>(x)); }
double __nv_hiloint2double(int high, int low) {
  return std::bit_cast<double>(static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 |
                               static_cast<uint32_t>(low));
}

}  // extern "C"

// ---- roundings ----

namespace {

template <class F>
auto rounded(int mode, F f) {
  const int before = std::fegetround();
  std::fesetround(mode);
  const auto result = f();
  std::fesetround(before);
  return result;
}
// To an integer type as a GPU converts, with saturation, and 0 for NaN.
template <class T>
T to_integer(double x, int mode) {
  const double whole = rounded(mode, [&] {
    const volatile double in = x;
    return std::nearbyint(in);
  });
  if (std::isnan(whole)) return 0;
  if (whole <= static_cast<double>(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::min();
  if (whole >= static_cast<double>(std::numeric_limits<T>::max()))
    return std::numeric_limits<T>::max();
  return static_cast<T>(whole);
}

}  // namespace

#ifdef FE_DOWNWARD
#define MODES(X) X(rn, FE_TONEAREST) X(rd, FE_DOWNWARD) X(ru, FE_UPWARD) X(rz, FE_TOWARDZERO)
#else  // WebAssembly
#define MODES(X) X(rn, FE_TONEAREST)
#endif
extern "C" {
// clang-format off
#define OPERATIONS(suffix, mode)                                                              \
  float __nv_fadd_##suffix(float a, float b) { return rounded(mode, [=] { volatile float x = a, y = b; return float(x + y); }); } \
  float __nv_fsub_##suffix(float a, float b) { return rounded(mode, [=] { volatile float x = a, y = b; return float(x - y); }); } \
  float __nv_fmul_##suffix(float a, float b) { return rounded(mode, [=] { volatile float x = a, y = b; return float(x * y); }); } \
  float __nv_fdiv_##suffix(float a, float b) { return rounded(mode, [=] { volatile float x = a, y = b; return float(x / y); }); } \
  float __nv_frcp_##suffix(float a) { return rounded(mode, [=] { volatile float x = a; return float(1 / x); }); } \
  float __nv_fsqrt_##suffix(float a) { return rounded(mode, [=] { volatile float x = a; return std::sqrt(x); }); } \
  float __nv_fmaf_##suffix(float a, float b, float c) { return rounded(mode, [=] { volatile float x = a, y = b, z = c; return std::fma(x, y, z); }); } \
  float __nv_fmaf_ieee_##suffix(float a, float b, float c) { return __nv_fmaf_##suffix(a, b, c); } \
  double __nv_dadd_##suffix(double a, double b) { return rounded(mode, [=] { volatile double x = a, y = b; return double(x + y); }); } \
  double __nv_dsub_##suffix(double a, double b) { return rounded(mode, [=] { volatile double x = a, y = b; return double(x - y); }); } \
  double __nv_dmul_##suffix(double a, double b) { return rounded(mode, [=] { volatile double x = a, y = b; return double(x * y); }); } \
  double __nv_ddiv_##suffix(double a, double b) { return rounded(mode, [=] { volatile double x = a, y = b; return double(x / y); }); } \
  double __nv_drcp_##suffix(double a) { return rounded(mode, [=] { volatile double x = a; return double(1 / x); }); } \
  double __nv_dsqrt_##suffix(double a) { return rounded(mode, [=] { volatile double x = a; return std::sqrt(x); }); } \
  double __nv_fma_##suffix(double a, double b, double c) { return rounded(mode, [=] { volatile double x = a, y = b, z = c; return std::fma(x, y, z); }); } \
  float __nv_double2float_##suffix(double a) { return rounded(mode, [=] { volatile double x = a; return float(x); }); } \
  float __nv_int2float_##suffix(int a) { return rounded(mode, [=] { volatile int x = a; return float(x); }); } \
  float __nv_uint2float_##suffix(unsigned a) { return rounded(mode, [=] { volatile unsigned x = a; return float(x); }); } \
  float __nv_ll2float_##suffix(long long a) { return rounded(mode, [=] { volatile long long x = a; return float(x); }); } \
  float __nv_ull2float_##suffix(unsigned long long a) { return rounded(mode, [=] { volatile unsigned long long x = a; return float(x); }); } \
  double __nv_ll2double_##suffix(long long a) { return rounded(mode, [=] { volatile long long x = a; return double(x); }); } \
  double __nv_ull2double_##suffix(unsigned long long a) { return rounded(mode, [=] { volatile unsigned long long x = a; return double(x); }); } \
  int __nv_float2int_##suffix(float a) { return to_integer<int>(a, mode); }                    \
  unsigned __nv_float2uint_##suffix(float a) { return to_integer<unsigned>(a, mode); }         \
  long long __nv_float2ll_##suffix(float a) { return to_integer<long long>(a, mode); }         \
  unsigned long long __nv_float2ull_##suffix(float a) { return to_integer<unsigned long long>(a, mode); } \
  int __nv_double2int_##suffix(double a) { return to_integer<int>(a, mode); }                  \
  unsigned __nv_double2uint_##suffix(double a) { return to_integer<unsigned>(a, mode); }       \
  long long __nv_double2ll_##suffix(double a) { return to_integer<long long>(a, mode); }       \
  unsigned long long __nv_double2ull_##suffix(double a) { return to_integer<unsigned long long>(a, mode); }
MODES(OPERATIONS)
// clang-format on
#undef OPERATIONS
#undef MODES
float __nv_frsqrt_rn(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
double __nv_int2double_rn(int x) { return x; }
double __nv_uint2double_rn(unsigned x) { return x; }

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,bugprone-macro-parentheses)
