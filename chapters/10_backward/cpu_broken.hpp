#pragma once
// The breaks of the backward pass on the CPU. Each is one visible site in cpu_schedules.hpp.

#include <cstdint>
#include <vector>

#include "common/breaks.hpp"

namespace fa::ch10 {

enum BreakBit : uint32_t {
  kNoD = 1,
  kNoScaleInDk = 2,
  kUnmaskedBackward = 4,
  kLseOfEmptyRow = 8,
  kBf16Dq = 16,
};

inline const std::vector<Break> kBreaks = {
    {"no-d", kNoD, "D is not subtracted: dS = P o dP"},
    {"no-scale-in-dk", kNoScaleInDk, "dK is not multiplied by the scale of the scores"},
    {"unmasked-backward", kUnmaskedBackward,
     "hidden keys, and those past the end, are hidden in the forward pass only"},
    {"lse-of-empty-row", kLseOfEmptyRow, "a row that sees no key keeps its LSE of -inf"},
    {"bf16-dq", kBf16Dq, "dQ is added up in bf16 instead of fp32, over the key tiles"},
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

}  // namespace fa::ch10
