#pragma once
// Why three barriers: all have read the last V before its buffer is filled again; all threads'
// parts of K have landed; all threads' parts of V have landed, and all have read K, whose other
// buffer load_K fills in the next turn. Why wait<1> twice: the group that is needed is the oldest
// of two.

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
