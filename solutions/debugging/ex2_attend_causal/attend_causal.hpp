#pragma once
// Causal attention for one query: key j is hidden from query i when j > i + (len_kv - len_q).

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace debugging {

// s[j] is the score of key j. Tiles that are hidden as a whole are not visited, and `visited`
// counts the others. A query that sees no key gets 0.
inline float attend_causal(int i, int len_q, std::span<const float> s, std::span<const float> v,
                           int block, int& visited) {
  const int len_kv = static_cast<int>(s.size()), offset = len_kv - len_q;
  constexpr float INF = std::numeric_limits<float>::infinity();
  float m = -INF, l = 0, o = 0;
  for (int first = 0; first < len_kv; first += block) {
    // The same inequality as for a single key, of the tile's first: skipping and masking must
    // agree.
    if (first > i + offset) break;
    ++visited;
    const int last = std::min(first + block, len_kv);
    float tile_max = -INF;
    for (int j = first; j < last; ++j) {
      if (j <= i + offset) tile_max = std::max(tile_max, s[j]);
    }
    if (tile_max == -INF) continue;
    const float m_new = std::max(m, tile_max), rescale = std::exp(m - m_new);
    l *= rescale;
    o *= rescale;
    for (int j = first; j < last; ++j) {
      const float p = j <= i + offset ? std::exp(s[j] - m_new) : 0;
      l += p;
      o += p * v[j];
    }
    m = m_new;
  }
  return m == -INF ? 0 : o / l;
}

}  // namespace debugging
