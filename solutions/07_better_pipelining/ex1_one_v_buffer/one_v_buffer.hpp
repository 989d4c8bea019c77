#pragma once
// There are three barriers. After the first, all threads have read the last V, and load_V may
// overwrite it. After the second, all threads' parts of K have arrived. After the third, all parts
// of V have arrived, and all threads have read K, whose buffer load_K overwrites in the next
// iteration. Both waits are wait<1>, because two groups are in flight at each of them, and the
// older one is needed.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex07 {

template <class Steps>
FA_DEVICE void walk_tiles(Steps& steps, int num_tiles) {
  steps.load_K(0);
  for (int tile = 0; tile < num_tiles; ++tile) {
    block_sync();  // all have read the last tile's V
    steps.load_V(tile);
    cp_async_wait<1>();  // K is here, V stays in flight
    block_sync();
    steps.multiply_K(tile);
    steps.load_K(tile + 1);
    cp_async_wait<1>();  // V is here, the next K stays in flight
    block_sync();
    steps.multiply_V(tile);
  }
}

}  // namespace FA_BACKEND::ex07
