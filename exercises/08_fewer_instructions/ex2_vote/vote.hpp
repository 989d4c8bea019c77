#pragma once
// m' = max(m, rowmax S),   l *= exp(m - m'),   O *= exp(m - m'),   only if a maximum has grown a
// lot

#include <limits>

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex08 {

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();
constexpr float MAX_GROWTH = 8.0f;  // log2, so that weights reach 256

// Returns the largest x of the four lanes that share a row. All 32 lanes call it, and it takes two
// shuffles.
FA_DEVICE float quad_max(float x) {
  x = max(x, shfl_xor(x, 1));
  return max(x, shfl_xor(x, 2));
}

// All 32 lanes of a warp call it. lane_max is the largest score of this lane's columns in the next
// tile, for its two rows, or -inf where no key is visible. m, l and O_rmem [16, MMAS_D * 8] belong
// to the tiles before, where m is the same in the four lanes of a row, l the sum of this lane's
// columns. The weights are 2^(scale_log2 (s - m)).
template <int MMAS_D>
FA_DEVICE void raise_row_max(float (&m)[2], float (&l)[2], float (&O_rmem)[MMAS_D][4],
                             const float (&lane_max)[2], float scale_log2) {
  exercise::todo("TODO(08.2): the vote; then for both rows the new m, the factor, l and O");
}

}  // namespace FA_BACKEND::ex08
