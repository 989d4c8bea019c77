#pragma once
// wait<1> counts groups. The last iteration copies nothing, so it commits an empty group. Without
// this group, wait<1> would let the last tile itself stay in flight. There are two barriers. After
// the first, all threads' parts of the tile have arrived. After the second, all threads have added
// the tile, and start_copy may overwrite its buffer in the next iteration.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex05 {

template <class Steps>
FA_DEVICE void add_tiles(Steps& steps, int num_tiles) {
  steps.start_copy(0, 0);
  cp_async_commit();
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) steps.start_copy((tile + 1) % 2, tile + 1);
    cp_async_commit();
    cp_async_wait<1>();
    block_sync();
    steps.add(tile % 2);
    block_sync();
  }
}

}  // namespace FA_BACKEND::ex05
