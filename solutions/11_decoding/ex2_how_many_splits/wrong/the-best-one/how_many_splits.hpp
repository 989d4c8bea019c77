#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

// Into how many splits to cut the keys of a sequence. `blocks`: without splitting. `tiles`: of
// keys. All three are at least 1.
inline int how_many_splits(int blocks, int multiprocessors, int tiles) {
  if (10 * blocks >= 8 * multiprocessors) return 1;
  const int most = std::min({128, multiprocessors, tiles});
  const auto tiles_each = [&](int splits) { return (tiles + splits - 1) / splits; };
  std::vector<double> busy(most + 1, 0.0);  // 0: left out
  for (int splits = 1; splits <= most; ++splits) {
    if (splits > 1 && tiles_each(splits) == tiles_each(splits - 1)) continue;
    const double waves = double(blocks) * splits / multiprocessors;
    busy[splits] = waves / std::ceil(waves);
  }
  const double best = *std::max_element(busy.begin(), busy.end());
  int splits = 1;
  while (busy[splits] < best) ++splits;
  return splits;
}
