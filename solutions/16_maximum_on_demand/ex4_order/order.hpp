#pragma once
// All groups before the last are full, so a division gives the group and the number of blocks
// before it. Within a group, the number of its heads counts. It differs only in the last group, if
// that is smaller.

#include <algorithm>

struct Work {
  int head, q_tile;
};

// The work of block `index`, 0 to heads * q_tiles - 1. Heads in groups of `together`, 1 to heads,
// in the order of head 0 to together - 1, then the next heads, and the last group may be smaller.
// In a group tile q_tiles - 1 of all its heads, one head after the other, then tile q_tiles - 2,
// and so on to tile 0.
inline Work work_of(int index, int heads, int q_tiles, int together) {
  const int first_head = index / (together * q_tiles) * together;
  const int in_group = index - first_head * q_tiles;
  const int group_heads = std::min(together, heads - first_head);
  return {first_head + in_group % group_heads, q_tiles - 1 - in_group / group_heads};
}
