#pragma once
// The breaks of this chapter alone. Bits 0 to 4 belong to chapter 16, whose functions it calls.

#include "chapters/16_maximum_on_demand/breaks.hpp"

namespace fa {

enum PersistentBreak : uint32_t {
  EARLY_INDEX = OWN_BREAK << 5,
  Q_OVER_Q = OWN_BREAK << 6,
  NO_STORE_WAIT = OWN_BREAK << 7,
  NO_STORE_FENCE = OWN_BREAK << 8,
  RESTARTED_PHASES = OWN_BREAK << 9,
};

}  // namespace fa
