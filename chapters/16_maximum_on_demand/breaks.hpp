#pragma once
// The breaks of this chapter alone.

#include "common/kernels/forward.hpp"

namespace fa {

enum OnDemandBreak : uint32_t {
  NO_SUM_CHECK = OWN_BREAK << 0,
  EARLY_RELEASE = OWN_BREAK << 1,
  TOP_LEFT_MASK = OWN_BREAK << 2,
  UNMASKED_DIAGONAL = OWN_BREAK << 3,
  NO_SECOND_TRY = OWN_BREAK << 4,
};

}  // namespace fa
