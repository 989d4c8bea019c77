#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

struct Tile {
  int m, k, n;  // rows of A that stream past k × n weights
};

inline std::int64_t stream_cycles(const std::vector<Tile>& tiles) {
  std::int64_t start = 0;
  for (size_t i = 1; i < tiles.size(); ++i) start += std::max(tiles[i - 1].m, tiles[i].k);
  return start + tiles.back().m + tiles.back().k + tiles.back().n - 2;
}
