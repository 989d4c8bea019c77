#pragma once
// Scores of one tile after the other, with two of them in flight.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex13 {

constexpr int KEYS = 16;  // per tile

// All 128 threads of a warpgroup call it, and all tiles are in shared memory. For each tile, 0 to
// num_tiles - 1, in this order:
//
//   steps.multiply(S, tile) four wgmma, which put the scores of that tile into S, one of the two of
//   S_rmem.
//                             It has no fence, no commit, no wait.
//   steps.use(S, tile) ordinary instructions, which read these scores, and write to S.
//
// While one tile is used, the next shall be in flight. Yours, besides the two calls:
// wgmma_fence(), wgmma_commit(), wgmma_wait<N>(S): at most N groups are in flight then, and S is
// this thread's again; or wgmma_wait<N>(S, other).
template <class Steps>
FA_DEVICE void score_tiles(Steps& steps, float (&S_rmem)[2][KEYS / 8][4], int num_tiles) {
  exercise::todo("TODO(13.4): fence, multiply, commit; wait, use");
}

}  // namespace FA_BACKEND::ex13
