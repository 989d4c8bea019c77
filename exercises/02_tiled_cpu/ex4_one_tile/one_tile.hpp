#pragma once
// The state of one query after one tile of keys, without any other key.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "exercises/02_tiled_cpu/tiles.hpp"
#include "exercises/support/todo.hpp"

using tiles::State;

// q [dim], K [keys, dim], V [keys, dim], where K(j, d) is element d of key j. State(dim) has m =
// -inf, l = 0, o = 0.
inline State attend_tile(std::span<const float> q, fa::View<const float> K, fa::View<const float> V,
                         float scale) {
  State state(V.cols);
  exercise::todo("TODO(02.4): s = scale * q.k for each key; m, then l and o from p = e^(s - m)");
}
