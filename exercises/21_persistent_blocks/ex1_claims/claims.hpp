#pragma once
// Persistent blocks that take tiles of queries from a counter.

#include <algorithm>
#include <vector>

#include "exercises/support/todo.hpp"

// Returns when each block has finished, in order of the blocks. Tile i takes lengths[i]. Block b
// begins with tile b at time 0. A block that has finished a tile claims the next one from the
// counter, or ends if there is none left. If two blocks finish at the same time, the one with the
// smaller number claims first. If there are fewer tiles than blocks, the other blocks finish at 0.
inline std::vector<int> finish_times(const std::vector<int>& lengths, int blocks) {
  exercise::todo("TODO(21.1): the tile that each block claims, and when it has finished");
}
