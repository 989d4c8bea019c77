#pragma once
// The counter is the order of the tiles. The block that finishes first claims first, so each tile
// goes to the block with the smallest time, and no block ends while a tile is left.

#include <algorithm>
#include <vector>

// Returns when each block has finished, in order of the blocks. Tile i takes lengths[i]. Block b
// begins with tile b at time 0. A block that has finished a tile claims the next one from the
// counter, or ends if there is none left. If two blocks finish at the same time, the one with the
// smaller number claims first. If there are fewer tiles than blocks, the other blocks finish at 0.
inline std::vector<int> finish_times(const std::vector<int>& lengths, int blocks) {
  std::vector<int> times(blocks);
  size_t claimed = 0;  // the counter
  for (int& time : times)
    if (claimed < lengths.size()) time = lengths[claimed++];
  while (claimed < lengths.size())
    *std::min_element(times.begin(), times.end()) += lengths[claimed++];
  return times;
}
