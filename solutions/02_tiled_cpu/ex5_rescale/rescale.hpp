#pragma once
// l and o are relative to the old m. One factor corrects both for the whole tile. It is 1 if the
// maximum does not grow, and 0 at the first tile, where there is nothing to keep.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "exercises/02_tiled_cpu/tiles.hpp"

using tiles::State;

// s [keys] has the scores of this tile, scaled and finite. V is [keys, dim], where V(j, d) is
// element d of key j. Before the first tile state is m = -inf, l = 0, o = 0.
inline void add_tile(State& state, std::span<const float> s, fa::View<const float> V) {
  const float m_new = std::max(state.m, *std::max_element(s.begin(), s.end()));
  const float rescale = std::exp(state.m - m_new);
  state.l *= rescale;
  for (float& value : state.o) value *= rescale;
  for (int64_t j = 0; j < V.rows; ++j) {
    const float p = std::exp(s[j] - m_new);
    state.l += p;
    for (int64_t d = 0; d < V.cols; ++d) state.o[d] += p * V(j, d);
  }
  state.m = m_new;
}
