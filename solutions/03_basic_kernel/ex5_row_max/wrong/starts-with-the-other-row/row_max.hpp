#pragma once
// The maximum of each row of S, in registers.

#include <limits>

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

// S_rmem: this lane's part of S [16, MMAS_KV * 8], one 16x8 tile after the other.
// result[0] is for row lane/4, result[1] for row lane/4 + 8. max(a, b) takes two floats.
template <int MMAS_KV>
FA_DEVICE void row_max(float (&result)[2], const float (&S_rmem)[MMAS_KV][4]) {
  for (int half = 0; half < 2; ++half) {
    float m = S_rmem[0][0];
    for (int i = 0; i < MMAS_KV; ++i) m = max(m, max(S_rmem[i][2 * half], S_rmem[i][2 * half + 1]));
    m = max(m, shfl_xor(m, 1));
    m = max(m, shfl_xor(m, 2));
    result[half] = m;
  }
}

}  // namespace FA_BACKEND::ex03
