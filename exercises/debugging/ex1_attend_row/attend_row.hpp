#pragma once
// softmax(s) @ v for one query, a tile of keys at a time.
// TODO(D.1): this program is wrong; find the line and mend it

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
    m = std::max(m, tile_max);
    const float rescale = std::exp(m - std::max(m, tile_max));
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
