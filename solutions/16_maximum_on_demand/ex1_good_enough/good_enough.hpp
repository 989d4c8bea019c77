#pragma once
// 4 lanes x 2^50 x a V of 2^60 x 2^14 tiles is 2^126, which is below 2^128. The comparison treats a
// NaN as too large, because a NaN is not below anything. The sum of both rows keeps a NaN of either
// row, and needs only one comparison.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex16 {

// All 32 lanes of a warp call it. sum[0] and sum[1] are the sums of this lane's weights of a tile
// in its two rows: 0 or more, Inf or NaN. Returns whether the warp recomputes the tile, which is
// the same in all lanes.
FA_DEVICE bool again(const float (&sum)[2]) {
  constexpr float LIMIT = 0x1p50f;
  return warp_any(!(sum[0] + sum[1] < LIMIT));
}

}  // namespace FA_BACKEND::ex16
