#pragma once
// Two exchanges are enough. After the first, lanes 0 and 1 agree, and lanes 2 and 3 agree. After
// the second all four do, so no lane has to send the answer back. The masks are 1 and 2 (0b10),
// because the lanes of a quad differ in their two lowest bits. 0x10 would be a lane four rows away.

#include <limits>

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

template <int MMAS_KV>
FA_DEVICE void row_max(float (&result)[2], const float (&S_rmem)[MMAS_KV][4]) {
  for (int half = 0; half < 2; ++half) {
    float value = -std::numeric_limits<float>::infinity();
    for (const auto& c : S_rmem) value = max(value, max(c[half * 2], c[half * 2 + 1]));
    value = max(value, shfl_xor(value, 1));
    value = max(value, shfl_xor(value, 2));
    result[half] = value;
  }
}

}  // namespace FA_BACKEND::ex03
