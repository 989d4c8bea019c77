#pragma once
// The breaks of chapter 19.

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
    {"overflowing-merge", OVERFLOWING_MERGE},
    {"local-positions", LOCAL_POSITIONS},
    {"bf16-hops", BF16_HOPS},
    {"blocking-sends", BLOCKING_SENDS},
    {"one-buffer", ONE_BUFFER},
};

}  // namespace ch19
