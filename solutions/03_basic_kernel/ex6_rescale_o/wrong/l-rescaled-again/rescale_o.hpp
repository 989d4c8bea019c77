#pragma once
// m' = max(m, rowmax S),   l *= exp(m - m'),   O *= exp(m - m')

#include <limits>

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

// row_max: of the tile that comes next, for this lane's two rows; -inf where no key is visible.
// m, l and O_rmem [16, MMAS_D * 8] belong to the tiles before. max and exp take floats.
template <int MMAS_D>
FA_DEVICE void update_max(float (&m)[2], float (&l)[2], float (&O_rmem)[MMAS_D][4],
                          const float (&row_max)[2]) {
  for (int half = 0; half < 2; ++half) {
    const float before = m[half];
    m[half] = max(before, row_max[half]);
    const float subtracted = m[half] == NEG_INF ? 0.0f : m[half];
    const float rescale = exp(before - subtracted);
    for (auto& tile : O_rmem) {
      l[half] *= rescale;
      tile[half * 2] *= rescale;
      tile[half * 2 + 1] *= rescale;
    }
  }
}

}  // namespace FA_BACKEND::ex03
