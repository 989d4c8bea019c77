#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

struct Tile {
  int m, k, n;  // rows of A that stream past k × n weights
};

inline std::int64_t stream_cycles(const std::vector<Tile>& tiles) {
  std::int64_t end = 0;
  for (const Tile& tile : tiles) end += tile.m + tile.k + tile.n - 2;
  return end;
}
