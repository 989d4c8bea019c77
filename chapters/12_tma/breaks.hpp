#pragma once
// The breaks of this chapter alone.

#include "common/kernels/forward.hpp"

namespace fa {

enum TmaBreak : uint32_t {
  EXPECT_TOO_LITTLE = OWN_BREAK << 0,
  WRONG_PARITY = OWN_BREAK << 1,
  NO_INIT_FENCE = OWN_BREAK << 2,
  FLAT_MAP = OWN_BREAK << 3,
};

}  // namespace fa
