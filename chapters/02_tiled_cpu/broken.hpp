#pragma once
// The breaks of this chapter. Each is implemented in one place in tiled.hpp. The last four
// reproduce bugs of production kernels or of libraries that call them.

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

// The algorithm is compiled twice, once without breaks, where has() is false at compile time and
// the compiler removes the branches, and once with a bit mask that is only known at run time.
struct Intact {
  static constexpr bool has(BreakBit) { return false; }
};
struct Broken {
  uint32_t mask;
  bool has(BreakBit bit) const { return mask & bit; }
};

}  // namespace ch02
