#pragma once
// Adds the next tile of keys to the state of a query, which moves to the new maximum.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "exercises/02_tiled_cpu/tiles.hpp"
#include "exercises/support/todo.hpp"

using tiles::State;

// s [keys] has the scores of this tile, scaled and finite. V is [keys, dim], where V(j, d) is
// element d of key j. Before the first tile state is m = -inf, l = 0, o = 0.
inline void add_tile(State& state, std::span<const float> s, fa::View<const float> V) {
  exercise::todo("TODO(02.5): m' of old and new keys; l and o move to it; then the new terms");
}
