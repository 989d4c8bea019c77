#pragma once
// Cycles of a stream of tiles through an array with two weight registers in each cell.
#include <algorithm>
#include <cstdint>
#include <vector>

struct Tile {
  int m, k, n;  // rows of A that stream past k × n weights
};

inline std::int64_t stream_cycles(const std::vector<Tile>& tiles) {
  std::int64_t start = 0, weights = 0, last = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (i > 0) {
      weights += tiles[i].k;
      start = std::max(start + tiles[i - 1].m, weights);
    }
    last = std::max<std::int64_t>(last, start + tiles[i].m + tiles[i].k + tiles[i].n - 2);
  }
  return last;
}
