#pragma once
// K in two buffers, V in one.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex07 {

// steps.load_K(tile), steps.load_V(tile): copies of this thread's part, and a commit.
// steps.multiply_K(tile), steps.multiply_V(tile): in this order, tile after tile.
// You call cp_async_wait<N>(), block_sync(). Tiles are 0 to num_tiles - 1, one or more.
template <class Steps>
FA_DEVICE void walk_tiles(Steps& steps, int num_tiles) {
  exercise::todo("TODO(07.1): the loop: two loads, two multiplications, waits, barriers");
}

}  // namespace FA_BACKEND::ex07
