#pragma once
// o is not divided by l here, because the next tile may raise the maximum, and one factor corrects
// a sum. The division at the end is dim divisions per query, instead of dim divisions per tile.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "exercises/02_tiled_cpu/tiles.hpp"

using tiles::State;

// q [dim], K [keys, dim], V [keys, dim], where K(j, d) is element d of key j. State(dim) has m =
// -inf, l = 0, o = 0.
inline State attend_tile(std::span<const float> q, fa::View<const float> K, fa::View<const float> V,
                         float scale) {
  State state(V.cols);
  std::vector<float> s(K.rows);
  for (int64_t j = 0; j < K.rows; ++j) {
    for (int64_t d = 0; d < K.cols; ++d) s[j] += q[d] * K(j, d);
    s[j] *= scale;
  }
  state.m = *std::max_element(s.begin(), s.end());
  for (int64_t j = 0; j < K.rows; ++j) {
    const float p = std::exp(s[j] - state.m);
    state.l += p;
    for (int64_t d = 0; d < V.cols; ++d) state.o[d] += p * V(j, d);
  }
  return state;
}
