#pragma once
// All keys of one query, tile by tile. Their number need not be a multiple of the block.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "exercises/02_tiled_cpu/tiles.hpp"
#include "exercises/support/todo.hpp"

using tiles::State;

// q [dim], K and V [keys, dim] with K.rows keys, at least one. From tiles.hpp: tiles::load_tile,
// tiles::scores, tiles::add_tile, -tiles::kInfinity.
inline State attend(std::span<const float> q, fa::View<const float> K, fa::View<const float> V,
                    float scale, int64_t block) {
  State state(V.cols);
  exercise::todo("TODO(02.7): for each tile: load K and V, scores, hide what is past the end, add");
}
