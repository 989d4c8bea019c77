#pragma once
// Was the maximum at hand good enough for this tile?

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex16 {

// All 32 lanes of a warp call it. sum[0], sum[1]: this lane's weights of a tile, added up in either
// of its two rows; 0 or more, Inf or NaN. Returns whether the warp does the tile again: the same in
// all lanes.
FA_DEVICE bool again(const float (&sum)[2]) {
  constexpr float LIMIT = 0x1p50f;
  return !warp_any(sum[0] + sum[1] < LIMIT);
}

}  // namespace FA_BACKEND::ex16
