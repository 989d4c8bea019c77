#pragma once
// The factor is computed before m is overwritten, because it needs the old and the new maximum. In
// the exponent, 0 replaces -inf, because -inf - (-inf) is NaN, while exp(-inf - 0) is 0, and 0
// times an empty sum is right.

#include <limits>

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

template <int MMAS_D>
FA_DEVICE void update_max(float (&m)[2], float (&l)[2], float (&O_rmem)[MMAS_D][4],
                          const float (&row_max)[2]) {
  for (int half = 0; half < 2; ++half) {
    const float m_new = max(m[half], row_max[half]);
    const float factor = exp(m[half] - (m_new == NEG_INF ? 0.0f : m_new));
    m[half] = m_new;
    l[half] *= factor;
    for (auto& c : O_rmem) {
      c[half * 2] *= factor;
      c[half * 2 + 1] *= factor;
    }
  }
}

}  // namespace FA_BACKEND::ex03
