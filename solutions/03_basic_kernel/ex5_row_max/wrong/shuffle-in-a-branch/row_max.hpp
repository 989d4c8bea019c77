#pragma once

#include <limits>

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

template <int MMAS_KV>
FA_DEVICE void row_max(float (&result)[2], const float (&S_rmem)[MMAS_KV][4]) {
  for (int half = 0; half < 2; ++half) {
    float value = -std::numeric_limits<float>::infinity();
    for (const auto& c : S_rmem) value = max(value, max(c[half * 2], c[half * 2 + 1]));
    if (lane_index() % 4 == 0) {
      value = max(value, shfl_xor(value, 1));
      value = max(value, shfl_xor(value, 2));
    }
    result[half] = value;
  }
}

}  // namespace FA_BACKEND::ex03
