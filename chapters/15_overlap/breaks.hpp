#pragma once
// The breaks of this chapter alone.

#include "common/kernels/forward.hpp"

namespace fa {

enum OverlapBreak : uint32_t {
  EARLY_PACK = OWN_BREAK << 0,
  EARLY_RESCALE = OWN_BREAK << 1,
  WAIT_FOR_NEITHER = OWN_BREAK << 2,
  NO_FIRST_TURN = OWN_BREAK << 3,
};

}  // namespace fa
