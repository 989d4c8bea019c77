#pragma once
// The breaks of the FP8 kernel alone.

#include "common/kernels/forward.hpp"

namespace fa {

enum Fp8Break : uint32_t {
  FP8_NO_SMOOTHING = OWN_BREAK << 0,
  FP8_LSE_UNCORRECTED = OWN_BREAK << 1,
  P_UNSCALED = OWN_BREAK << 2,
  ONE_LEVEL = OWN_BREAK << 3,
  KEYS_IN_ORDER = OWN_BREAK << 4,
  FP8_NO_SUM_CHECK = OWN_BREAK << 5,
  NO_BOUND = OWN_BREAK << 6,
};

}  // namespace fa
