#pragma once
// The breaks of the tiled attention.

#include <cstdint>

#include "common/breaks.hpp"

namespace fa::ch20 {

enum TrainingBreak : uint32_t {
  MASK_OFF_BY_ONE = 1,
  TILE_RELATIVE_MASK = 2,
  NO_D = 4,
  NO_SCALE_IN_DK = 8,
  NO_RESCALE = 16,
};

inline constexpr Break BREAKS[] = {
    {"mask-off-by-one", MASK_OFF_BY_ONE},
    {"tile-relative-mask", TILE_RELATIVE_MASK},
    {"no-d", NO_D},
    {"no-scale-in-dk", NO_SCALE_IN_DK},
    {"no-rescale", NO_RESCALE},
};

// The algorithm is compiled twice: intact, where has() is false at compile time so that its
// branches disappear, and with a mask that is only known at run time.
struct Intact {
  static constexpr bool has(TrainingBreak) { return false; }
};
struct Broken {
  uint32_t mask;
  bool has(TrainingBreak bit) const { return mask & bit; }
};

}  // namespace fa::ch20
