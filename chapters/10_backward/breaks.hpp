#pragma once
// What only chapter 10 can switch off, on the CPU and in its kernels.

#include "common/kernels/forward.hpp"

namespace fa {

enum BackwardBreak : uint32_t {
  NO_D = OWN_BREAK << 0,
  NO_SCALE_IN_DK = OWN_BREAK << 1,
  UNMASKED_BACKWARD = OWN_BREAK << 2,
  LSE_OF_EMPTY_ROW = OWN_BREAK << 3,
  BF16_DQ = OWN_BREAK << 4,
};

}  // namespace fa
