#pragma once
// The breaks of chapter 22 alone.

#include "common/breaks.hpp"
#include "common/kernels/forward.hpp"

namespace fa {

enum HopperBackwardBreak : uint32_t {
  REDUCE_BEFORE_LANDED = OWN_BREAK << 0,
  DQ_OVERWRITTEN = OWN_BREAK << 1,
  DS_WITHOUT_FENCE = OWN_BREAK << 2,
  SWAPPED_TRANSPOSE = OWN_BREAK << 3,
  DQ_NOT_CLEARED = OWN_BREAK << 4,
  DQ_OUT_OF_TURN = OWN_BREAK << 5,
};

inline constexpr Break HOPPER_BACKWARD_BREAKS[] = {
    {"reduce-before-landed", REDUCE_BEFORE_LANDED},
    {"dq-overwritten", DQ_OVERWRITTEN},
    {"ds-without-fence", DS_WITHOUT_FENCE},
    {"swapped-transpose", SWAPPED_TRANSPOSE},
    {"dq-not-cleared", DQ_NOT_CLEARED},
    {"unordered-dq", DQ_OUT_OF_TURN},
};

}  // namespace fa
