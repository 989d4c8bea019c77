#pragma once
// The causal mask on one tile of scores.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exercises/02_tiled_cpu/tiles.hpp"

// s [queries, keys] is a tile of the whole score matrix, which is [len_q, len_kv]. Its corner s(0,
// 0) belongs to query first_query and key first_key; s(i, j) = x sets a score, and s.rows and
// s.cols are its size. It may reach past the last key: the same condition hides what is there. A
// hidden score becomes -tiles::kInfinity.
inline void mask_tile(fa::View<float> s, int64_t first_query, int64_t first_key, int64_t len_q,
                      int64_t len_kv) {
  const int64_t shift = len_kv - len_q + first_query - first_key;
  for (int64_t i = 0; i < s.rows; ++i) {
    const int64_t last = i + shift;  // in the tile: the last key that query i sees
    if (last < 0) continue;          // sees none of these
    for (int64_t j = last + 1; j < s.cols; ++j) s(i, j) = -tiles::kInfinity;
  }
}
