#pragma once
// The breaks of this chapter alone.

#include "common/breaks.hpp"
#include "common/kernels/forward.hpp"

namespace fa {

enum DecodeBreak : uint32_t {
  OVERLAPPING_SPLITS = OWN_BREAK << 0,
  NO_RESCALE_IN_COMBINE = OWN_BREAK << 1,
  SILENT_EMPTY_SPLIT = OWN_BREAK << 2,
  PAGE_OFF_BY_ONE = OWN_BREAK << 3,
  STALE_VALUES = OWN_BREAK << 4,
  SHARED_PARTIAL = OWN_BREAK << 5,
  SINK_IN_EVERY_SPLIT = OWN_BREAK << 6,
  TREE_AS_CHAIN = OWN_BREAK << 7,
};

inline constexpr Break DECODE_BREAKS[] = {
    {"overlapping-splits", OVERLAPPING_SPLITS},   {"no-rescale-in-combine", NO_RESCALE_IN_COMBINE},
    {"silent-empty-split", SILENT_EMPTY_SPLIT},   {"shared-partial", SHARED_PARTIAL},
    {"page-off-by-one", PAGE_OFF_BY_ONE},         {"stale-values", STALE_VALUES},
    {"sink-in-every-split", SINK_IN_EVERY_SPLIT}, {"tree-as-chain", TREE_AS_CHAIN},
};

}  // namespace fa
