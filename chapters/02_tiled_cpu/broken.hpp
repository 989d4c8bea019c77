#pragma once
// The breaks of this chapter. Each is one visible site in tiled.hpp.

#include <cstdint>
#include <vector>

#include "common/breaks.hpp"

namespace ch02 {

enum BreakBit : uint32_t {
  kNoMax = 1,
  kNoRescale = 2,
  kMaxStartsAtZero = 4,
  kTileRelativeMask = 8,
  kUnmaskedTail = 16,
};

inline const std::vector<fa::Break> kBreaks = {
    {"no-max", kNoMax, "the row maximum is not subtracted before exp"},
    {"no-rescale", kNoRescale, "l and o of earlier tiles are not moved to the new maximum"},
    {"max-starts-at-zero", kMaxStartsAtZero, "m starts at 0 instead of -inf"},
    {"tile-relative-mask", kTileRelativeMask, "the mask counts positions from the tile's corner"},
    {"unmasked-tail", kUnmaskedTail, "keys past the end, filled with zeros, are not hidden"},
};

// The algorithm is compiled twice: intact, where has() is false at compile time and its branches
// are gone, and with a mask that is known at run time only.
struct Intact {
  static constexpr bool has(BreakBit) { return false; }
};
struct Broken {
  uint32_t mask;
  bool has(BreakBit bit) const { return mask & bit; }
};

}  // namespace ch02
