#pragma once
// The breaks of this chapter alone.

#include "common/kernels/forward.hpp"

namespace fa {

enum MaskBreak : uint32_t {
  MASK_EVERY_TILE = OWN_BREAK << 0,
  TOP_LEFT = OWN_BREAK << 1,
  WINDOW_OFF_BY_ONE = OWN_BREAK << 2,
  MODULO_HEADS = OWN_BREAK << 3,
  UNGUARDED_MAX = OWN_BREAK << 4,
  SOFTCAP_AFTER_MASK = OWN_BREAK << 5,
  LATE_SEQUENCE = OWN_BREAK << 6,
  SINK_NOT_RESCALED = OWN_BREAK << 7,
};

}  // namespace fa
