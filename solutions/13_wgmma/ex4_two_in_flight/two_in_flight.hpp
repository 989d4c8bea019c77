#pragma once
// Each tile is one group. The next tile's group is committed before the wait for this tile, so one
// group may be in flight after that wait. At the last tile there is no next group, so none may.

#include "common/kernels/geometry.hpp"

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
// While one tile is used, the next shall be in flight.
template <class Steps>
FA_DEVICE void score_tiles(Steps& steps, float (&S_rmem)[2][KEYS / 8][4], int num_tiles) {
  wgmma_fence();
  steps.multiply(S_rmem[0], 0);
  wgmma_commit();
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) {
      wgmma_fence();  // these registers were used one turn ago
      steps.multiply(S_rmem[(tile + 1) % 2], tile + 1);
      wgmma_commit();
      wgmma_wait<1>(S_rmem[tile % 2]);
    } else {
      wgmma_wait<0>(S_rmem[tile % 2]);
    }
    steps.use(S_rmem[tile % 2], tile);
  }
}

}  // namespace FA_BACKEND::ex13
