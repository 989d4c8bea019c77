#pragma once
// The breaks of the backward pass on the CPU. Each is one visible site in cpu_schedules.hpp.

#include <cstdint>

#include "breaks.hpp"

namespace fa::ch10 {

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
