#pragma once
// The positions are absolute, because the mask is a property of the sequence and does not depend on
// the tiles. The difference of the lengths is added, because the last query is the newest token,
// which sees every key.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exercises/02_tiled_cpu/tiles.hpp"

// s [queries, keys] is a tile of the whole score matrix, which is [len_q, len_kv]. Its corner s(0,
// 0) belongs to query first_query and key first_key. s(i, j) = x sets a score, and s.rows and
// s.cols are its size. A hidden score becomes -tiles::kInfinity.
inline void mask_tile(fa::View<float> s, int64_t first_query, int64_t first_key, int64_t len_q,
                      int64_t len_kv) {
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t j = 0; j < s.cols; ++j) {
      const int64_t query = first_query + i, key = first_key + j;
      if (key > query + (len_kv - len_q)) s(i, j) = -tiles::kInfinity;
    }
  }
}
