#pragma once
// Cycles of a stream of tiles through an array with two weight registers in each cell.
#include <algorithm>
#include <cstdint>
#include <vector>
#include "exercises/support/todo.hpp"

struct Tile {
  int m, k, n;  // rows of A that stream past k × n weights
};

inline std::int64_t stream_cycles(const std::vector<Tile>& tiles) {
  exercise::todo("TODO(18.4): when is the last of all tiles finished?");
}
