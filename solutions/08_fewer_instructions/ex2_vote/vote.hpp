#pragma once
// All lanes vote and then take the same branch, because the shuffles of quad_max take the whole
// warp. A lane may vote with its own columns, because the largest score of a row is in one of its
// four lanes, and one vote is enough. Each lane rescales its l, because it is a part of the row's
// sum, and the parts are added only after the last tile.

#include <limits>

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex08 {

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();
constexpr float MAX_GROWTH = 8.0f;  // log2, so that weights reach 256

// Returns the largest x of the four lanes that share a row. All 32 lanes call it, and it takes two
// shuffles.
FA_DEVICE float quad_max(float x) {
  x = max(x, shfl_xor(x, 1));
  return max(x, shfl_xor(x, 2));
}

template <int MMAS_D>
FA_DEVICE void raise_row_max(float (&m)[2], float (&l)[2], float (&O_rmem)[MMAS_D][4],
                             const float (&lane_max)[2], float scale_log2) {
  bool grew = false;
  for (int half = 0; half < 2; ++half) grew |= (lane_max[half] - m[half]) * scale_log2 > MAX_GROWTH;
  if (!warp_any(grew)) return;

  for (int half = 0; half < 2; ++half) {
    const float m_new = max(m[half], quad_max(lane_max[half]));
    const float factor = exp2((m[half] - (m_new == NEG_INF ? 0.0f : m_new)) * scale_log2);
    m[half] = m_new;
    l[half] *= factor;
    for (auto& c : O_rmem) {
      c[half * 2] *= factor;
      c[half * 2 + 1] *= factor;
    }
  }
}

}  // namespace FA_BACKEND::ex08
