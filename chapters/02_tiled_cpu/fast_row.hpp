// The vector arithmetic of fast.cpp, on one number for each of many queries. This file is included
// once for each instruction set, so the include guard is switched on and off.
#if defined(CH02_FAST_ROW) == defined(HWY_TARGET_TOGGLE)
#ifdef CH02_FAST_ROW
#undef CH02_FAST_ROW
#else
#define CH02_FAST_ROW
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace ch02 {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
constexpr Floats f32;
constexpr int64_t VECTOR = hn::MaxLanes(f32);  // floats in a register: 16 with AVX-512, 8 with AVX2
constexpr int VECTORS = 3;
constexpr int64_t LANES = VECTORS * VECTOR;  // number of queries

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// [anchor: exp2]
// Returns 2^x as 2^n * 2^f, with n the integer nearest to x and f in [-1/2, 1/2].
HWY_INLINE Vector exp2(Vector x) {
  const hn::RebindToSigned<Floats> i32;
  // Adding 1.5 * 2^23 rounds the fraction away, so the low bits of the sum are n.
  const Vector magic = hn::Set(f32, 12582912.0f);
  const Vector shifted = hn::Add(x, magic);
  const Vector f = hn::Sub(x, hn::Sub(shifted, magic));
  Vector power = hn::Set(f32, 1.32647285e-3f);  // polynomial, relative error 1.1e-7
  power = hn::MulAdd(power, f, hn::Set(f32, 9.67151299e-3f));
  power = hn::MulAdd(power, f, hn::Set(f32, 5.55073358e-2f));
  power = hn::MulAdd(power, f, hn::Set(f32, 2.40222464e-1f));
  power = hn::MulAdd(power, f, hn::Set(f32, 6.93147004e-1f));
  power = hn::MulAdd(power, f, hn::Set(f32, 1.0f));
  // Add n to the exponent field, which starts at bit 23.
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(i32, shifted));
  const Vector result = hn::BitCast(f32, hn::Add(hn::BitCast(i32, power), exponent));
  // A result below the normal range becomes 0, even for x = -inf. The select also discards a NaN in
  // `result`.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(f32, -126.0f)), result);
}
// [/anchor: exp2]

// One number for each of LANES queries, with elementwise arithmetic.
struct Row {
  Vector part[VECTORS];
};
#define FOR_PARTS HWY_UNROLL(3) for (int c = 0; c < VECTORS; ++c)

HWY_INLINE Row all(float x) {
  Row row;
  FOR_PARTS row.part[c] = hn::Set(f32, x);
  return row;
}
HWY_INLINE Row load(const float* from) {
  Row row;
  FOR_PARTS row.part[c] = hn::Load(f32, from + c * VECTOR);
  return row;
}
HWY_INLINE void store(const Row& row, float* to) {
  FOR_PARTS hn::Store(row.part[c], f32, to + c * VECTOR);
}
HWY_INLINE Row multiply_add(const Row& a, const Row& b, Row sum) {
  FOR_PARTS sum.part[c] = hn::MulAdd(a.part[c], b.part[c], sum.part[c]);
  return sum;
}
HWY_INLINE Row multiply_by(float factor, Row a) {
  FOR_PARTS a.part[c] = hn::Mul(hn::Set(f32, factor), a.part[c]);
  return a;
}
HWY_INLINE Row add(Row a, const Row& b) {
  FOR_PARTS a.part[c] = hn::Add(a.part[c], b.part[c]);
  return a;
}
HWY_INLINE Row max(Row a, const Row& b) {
  FOR_PARTS a.part[c] = hn::Max(a.part[c], b.part[c]);
  return a;
}
HWY_INLINE Row exp2_minus(Row a, const Row& b) {  // 2^(a - b)
  FOR_PARTS a.part[c] = exp2(hn::Sub(a.part[c], b.part[c]));
  return a;
}
HWY_INLINE Row zero_if_minus_infinity(Row a) {
  const Vector minus_infinity = hn::Set(f32, -kInfinity);
  FOR_PARTS a.part[c] = hn::IfThenZeroElse(hn::Eq(a.part[c], minus_infinity), a.part[c]);
  return a;
}
// Sets the lanes before `first` to -inf.
HWY_INLINE Row hide_before(int64_t first, Row a) {
  const Vector first_lane = hn::Set(f32, static_cast<float>(first));
  FOR_PARTS {
    const auto keep = hn::Ge(hn::Iota(f32, static_cast<float>(c * VECTOR)), first_lane);
    a.part[c] = hn::IfThenElse(keep, a.part[c], hn::Set(f32, -kInfinity));
  }
  return a;
}

}  // namespace HWY_NAMESPACE
}  // namespace ch02
HWY_AFTER_NAMESPACE();

#endif  // CH02_FAST_ROW
