#pragma once
// The breaks of the backward pass on the CPU. Each is one visible site in cpu_schedules.hpp.

#include <cstdint>
#include <vector>

#include "breaks.hpp"
#include "common/breaks.hpp"

namespace fa::ch10 {

inline const std::vector<Break> kBreaks = {
    {"no-d", NO_D, "D is not subtracted: dS = P o dP"},
    {"no-scale-in-dk", NO_SCALE_IN_DK, "dK is not multiplied by the scale of the scores"},
    {"unmasked-backward", UNMASKED_BACKWARD,
     "hidden keys, and those past the end, are hidden in the forward pass only"},
    {"lse-of-empty-row", LSE_OF_EMPTY_ROW, "a row that sees no key keeps its LSE of -inf"},
    {"bf16-dq", BF16_DQ, "dQ is added up in bf16 instead of fp32, over the key tiles"},
};

// The algorithm is compiled twice: intact, where has() is false at compile time and its branches
// are gone, and with a mask that is known at run time only.
struct Intact {
  static constexpr bool has(BackwardBreak) { return false; }
};
struct Broken {
  uint32_t mask;
  bool has(BackwardBreak bit) const { return mask & bit; }
};

}  // namespace fa::ch10
