#pragma once
// The grid of 11.6, with a block for each split of each head, and then the blocks that combine.

#include <cstdint>

struct Grid {
  int splits, batch, heads, len_q, dim;
};

// Keys [begin, end) of a sequence.
struct Keys {
  int begin, end;
};
