#pragma once
// The vote costs a barrier of four warps, so it comes between rounds and not between tiles. Only
// moves since the last vote count. So a bad beginning costs one exact round, and then the loop
// returns to the fast path.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex16 {

// All 128 threads of a consumer, which are four warps, call it. Tiles 0 to end - 1, at least one,
// each once and in order, by one of
//
//   steps.exact(n) looks for the maximum first, true if a maximum of this warp moved
//   steps.on_demand(n) uses the current one, true if a tile of this warp missed, so that a maximum
//   moved
//
// which return the same to all lanes of a warp. Tile 0 is exact, and so are the tiles that are not
// in [clear_begin, clear_end), at an edge, but that range may be empty, and extend past `end`.
// Those in it form rounds, which end before tile 4, 8, 16, 24, … A round is exact if in the round
// before a maximum moved in any of the four warps. Tile 0 and edges do not count. You also call
//
//   barrier_red_or(1, 128, b)   waits for all 128 threads; true for all if b was true in any
template <class Steps>
FA_DEVICE void consume(Steps& steps, int end, int clear_begin, int clear_end) {
  steps.exact(0);
  bool moved = false;  // a maximum of this warp, since the last vote
  int n = 1;
  while (n < end) {
    const bool edge = n < clear_begin || n >= clear_end;
    int round_end = n < 4 ? 4 : (n / 8 + 1) * 8;
    if (edge) round_end = n < clear_begin ? clear_begin : end;
    if (!edge && round_end > clear_end) round_end = clear_end;
    if (round_end > end) round_end = end;
    const bool exact = edge || barrier_red_or(1, 128, moved);
    moved = false;
    for (; n < round_end; ++n) moved |= exact ? steps.exact(n) : steps.on_demand(n);
    if (edge) moved = false;
  }
}

}  // namespace FA_BACKEND::ex16
