#include "common/half.hpp"

#include <algorithm>

namespace fa {

const char* name(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return "f32";
    case Dtype::f16:
      return "f16";
    case Dtype::bf16:
      return "bf16";
  }
  return "?";
}

float round_to(Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::f32:
      return value;
    case Dtype::f16:
      return to_float(to_fp16(value));
    case Dtype::bf16:
      return to_float(to_bf16(value));
  }
  return value;
}

double unit_in_last_place(Dtype dtype, double value) {
  const int mantissa_bits = dtype == Dtype::f32 ? 23 : dtype == Dtype::f16 ? 10 : 7;
  const int smallest_exponent = dtype == Dtype::f16 ? -14 : -126;
  int exponent = smallest_exponent;
  if (value != 0 && std::isfinite(value)) exponent = std::max(std::ilogb(value), smallest_exponent);
  return std::ldexp(1.0, exponent - mantissa_bits);
}

}  // namespace fa
