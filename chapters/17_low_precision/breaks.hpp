#pragma once
// The breaks of this chapter alone.

#include "common/kernels/forward.hpp"

namespace fa {

enum LowPrecisionBreak : uint32_t {
  NO_SMOOTHING = OWN_BREAK << 0,
  ONE_SCALE = OWN_BREAK << 1,
  LSE_UNCORRECTED = OWN_BREAK << 2,
  LATE_SCALE = OWN_BREAK << 3,
};

}  // namespace fa
