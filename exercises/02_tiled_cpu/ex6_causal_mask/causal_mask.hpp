#pragma once
// The causal mask on one tile of scores.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exercises/02_tiled_cpu/tiles.hpp"
#include "exercises/support/todo.hpp"

// s [queries, keys] is a tile of the whole score matrix, which is [len_q, len_kv]. Its corner s(0,
// 0) belongs to query first_query and key first_key. s(i, j) = x sets a score, and s.rows and
// s.cols are its size. It may reach past the last key, because the same condition masks those keys.
// A hidden score becomes -tiles::kInfinity.
inline void mask_tile(fa::View<float> s, int64_t first_query, int64_t first_key, int64_t len_q,
                      int64_t len_kv) {
  exercise::todo("TODO(02.6): hide key j from query i when j > i + (len_kv - len_q)");
}
