#pragma once
// Rounds of tiles, with a vote before each that decides whether its tiles are exact.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

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
  exercise::todo("TODO(16.3): rounds of tiles, and which of them are exact");
}

}  // namespace FA_BACKEND::ex16
