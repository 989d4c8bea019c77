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
    {"no-max", kNoMax},
    {"no-rescale", kNoRescale},
    {"max-starts-at-zero", kMaxStartsAtZero},
    {"tile-relative-mask", kTileRelativeMask},
    {"unmasked-tail", kUnmaskedTail},
    {"state-reset-per-block", kStateResetPerBlock},
    {"max-stuck-after-masked-tile", kMaxStuckAfterMaskedTile},
    {"finite-sentinel", kFiniteSentinel},
    {"sum-in-16-bit", kSumIn16Bit},
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
