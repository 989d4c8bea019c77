#pragma once
// The breaks of the server.

#include <cstdint>

#include "common/breaks.hpp"

namespace fa::ch24 {

enum ServingBreak : uint32_t {
  PAGE_FREED_EARLY = 1,
  STALE_PAGE = 2,
  LENGTHS_OFF_BY_ONE = 4,
};

inline constexpr Break BREAKS[] = {
    {"page-freed-early", PAGE_FREED_EARLY},
    {"stale-page", STALE_PAGE},
    {"lengths-off-by-one", LENGTHS_OFF_BY_ONE},
};

// A run's breaks, from --break.
struct Breaks {
  uint32_t mask = 0;
  bool has(ServingBreak bit) const { return mask & bit; }
};

}  // namespace fa::ch24
