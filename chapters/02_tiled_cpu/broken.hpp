#pragma once
// The breaks of this chapter. Each is one visible site in tiled.hpp. The last four were met in
// production kernels, or in libraries that call them.

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
  kStateResetPerBlock = 32,
  kMaxStuckAfterMaskedTile = 64,
  kFiniteSentinel = 128,
  kSumIn16Bit = 256,
};

inline const std::vector<fa::Break> kBreaks = {
    {"no-max", kNoMax, "the row maximum is not subtracted before exp"},
    {"no-rescale", kNoRescale, "l and o of earlier tiles are not moved to the new maximum"},
    {"max-starts-at-zero", kMaxStartsAtZero, "m starts at 0 instead of -inf"},
    {"tile-relative-mask", kTileRelativeMask, "the mask counts positions from the tile's corner"},
    {"unmasked-tail", kUnmaskedTail, "keys past the end, filled with zeros, are not hidden"},
    {"state-reset-per-block", kStateResetPerBlock, "m, l and o start again where the mask begins"},
    {"max-stuck-after-masked-tile", kMaxStuckAfterMaskedTile,
     "a tile of which a query sees nothing lifts its m to 0"},
    {"finite-sentinel", kFiniteSentinel, "a hidden key scores -5e4 instead of -inf"},
    {"sum-in-16-bit", kSumIn16Bit, "l is summed in the element type instead of fp32"},
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
