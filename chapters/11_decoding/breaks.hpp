#pragma once
// What --break can switch off in this chapter only.

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
};

inline constexpr Break DECODE_BREAKS[] = {
    {"overlapping-splits", OVERLAPPING_SPLITS,
     "a split begins with the last key of the one before"},
    {"no-rescale-in-combine", NO_RESCALE_IN_COMBINE, "all splits weigh the same"},
    {"silent-empty-split", SILENT_EMPTY_SPLIT, "a split that has no key writes no log-sum-exp"},
    {"shared-partial", SHARED_PARTIAL, "all splits write their results to the first one's place"},
    {"page-off-by-one", PAGE_OFF_BY_ONE, "a key is looked up one page too far in the table"},
    {"stale-values", STALE_VALUES, "rows of V behind the last key are copied, whatever they hold"},
};

}  // namespace fa
