#pragma once

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex07 {

template <class Steps>
FA_DEVICE void walk_tiles(Steps& steps, int num_tiles) {
  steps.load_K(0);
  for (int tile = 0; tile < num_tiles; ++tile) {
    block_sync();
    steps.load_V(tile);
    cp_async_wait<1>();
    block_sync();
    steps.multiply_K(tile);
    if (tile + 1 < num_tiles) steps.load_K(tile + 1);
    cp_async_wait<1>();
    block_sync();
    steps.multiply_V(tile);
  }
}

}  // namespace FA_BACKEND::ex07
