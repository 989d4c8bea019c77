#pragma once
// What only chapter 22 can switch off.

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
    {"reduce-before-landed", REDUCE_BEFORE_LANDED,
     "the copy engine adds dQ's tile before the consumers have stored it"},
    {"dq-overwritten", DQ_OVERWRITTEN,
     "the consumers store the next dQ before the copy engine has read the last one"},
    {"ds-without-fence", DS_WITHOUT_FENCE,
     "no proxy fence between the stores of dS and dQ's wgmma"},
    {"swapped-transpose", SWAPPED_TRANSPOSE, "dQ's descriptor reads dS.T as if it were dS"},
    {"dq-not-cleared", DQ_NOT_CLEARED, "the sum of dQ does not start at 0"},
    {"unordered-dq", DQ_OUT_OF_TURN, "--deterministic does not wait for a block's turn"},
};

}  // namespace fa
