#pragma once
// softmax(s) @ v for one query, a tile of keys at a time.

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace debugging {

// The state after a tile: max s, sum of e^(s - m), sum of e^(s - m) v.
struct Step {
  float m, l, o;
};

// s and v have the same length, at least 1. Every tile adds a line to the trace.
inline float attend_row(std::span<const float> s, std::span<const float> v, size_t block,
                        std::vector<Step>& trace) {
  float m = -std::numeric_limits<float>::infinity(), l = 0, o = 0;
  for (size_t first = 0; first < s.size(); first += block) {
    const size_t last = std::min(first + block, s.size());
    const float tile_max = *std::max_element(s.begin() + first, s.begin() + last);
    // m is the old maximum until everything that belongs to it has moved: with m overwritten first,
    // the factor is e^0 = 1 in every tile.
    const float m_new = std::max(m, tile_max);
    const float rescale = std::exp(m - m_new);
    m = m_new;
    l *= rescale;
    o *= rescale;
    for (size_t j = first; j < last; ++j) {
      const float p = std::exp(s[j] - m);
      l += p;
      o += p * v[j];
    }
    trace.push_back({m, l, o});
  }
  return o / l;
}

}  // namespace debugging
