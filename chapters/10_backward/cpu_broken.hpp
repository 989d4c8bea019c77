#pragma once
// The breaks of the backward pass on the CPU. Each changes one visible place in cpu_schedules.hpp.

#include <cstdint>

#include "breaks.hpp"

namespace fa::ch10 {

// The algorithm is compiled twice, once intact, where has() is false at compile time so that its
// branches disappear, and once with a mask that is only known at run time.
struct Intact {
  static constexpr bool has(BackwardBreak) { return false; }
};
struct Broken {
  uint32_t mask;
  bool has(BackwardBreak bit) const { return mask & bit; }
};

}  // namespace fa::ch10
