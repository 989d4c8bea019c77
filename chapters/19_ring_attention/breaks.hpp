#pragma once
// What --break can switch off.

#include "common/breaks.hpp"

namespace ch19 {

enum RingBreak : uint32_t {
  OVERFLOWING_MERGE = 1 << 0,
  LOCAL_POSITIONS = 1 << 1,
  BF16_HOPS = 1 << 2,
  BLOCKING_SENDS = 1 << 3,
  ONE_BUFFER = 1 << 4,
};

inline constexpr fa::Break BREAKS[] = {
    {"overflowing-merge", OVERFLOWING_MERGE, "states are merged by e^(lse_b - lse) as it is"},
    {"local-positions", LOCAL_POSITIONS, "keys that have travelled are masked as one's own were"},
    {"bf16-hops", BF16_HOPS, "O is rounded to bf16 from step to step"},
    {"blocking-sends", BLOCKING_SENDS, "a rank waits until its keys have left, then receives"},
    {"one-buffer", ONE_BUFFER, "keys are received into the memory that is being sent"},
};

}  // namespace ch19
