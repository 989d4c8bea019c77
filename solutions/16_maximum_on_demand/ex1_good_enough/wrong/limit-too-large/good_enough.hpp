#pragma once
// Was the maximum at hand good enough for this tile?

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex16 {

// All 32 lanes of a warp call it. sum[0], sum[1]: this lane's weights of a tile, added up in either
// of its two rows; 0 or more, Inf or NaN. Returns whether the warp does the tile again: the same in
// all lanes.
FA_DEVICE bool again(const float (&sum)[2]) { return warp_any(!std::isfinite(sum[0] + sum[1])); }

}  // namespace FA_BACKEND::ex16
