#pragma once
// Two buffers, so that the next tile arrives while one is added.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex05 {

// steps.start_copy(buffer, tile): starts this thread's part, of tiles 0 to num_tiles - 1, one or
// more.
// steps.add(buffer): adds the tile in buffer 0 or 1, also the parts that other threads copied.
// You call cp_async_commit(), cp_async_wait<N>(), block_sync().
template <class Steps>
FA_DEVICE void add_tiles(Steps& steps, int num_tiles) {
  exercise::todo("TODO(05.1): start tile 0; then for each tile start the next one, wait, add");
}

}  // namespace FA_BACKEND::ex05
