#pragma once
// The larger of the two counts, because the rows of A enter while the next weights are loaded, and
// the next tile needs both. Filling and draining cost nothing as long as another tile follows.
#include <algorithm>
#include <cstdint>
#include <vector>

struct Tile {
  int m, k, n;  // rows of A that stream past k × n weights
};

inline std::int64_t stream_cycles(const std::vector<Tile>& tiles) {
  std::int64_t start = 0, end = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (i > 0) start += std::max(tiles[i - 1].m, tiles[i].k);
    end = std::max<std::int64_t>(end, start + tiles[i].m + tiles[i].k + tiles[i].n - 2);
  }
  return end;
}
