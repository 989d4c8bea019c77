#pragma once
// What 11.6 runs: a block for each split of each head, and then those that combine.

#include <cstdint>

struct Grid {
  int splits, batch, heads, len_q, dim;
};

// Keys [begin, end) of a sequence.
struct Keys {
  int begin, end;
};
