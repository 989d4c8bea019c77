#pragma once
// A tile [HEIGHT, WIDTH] from global to shared memory, 16 bytes per thread at a time.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex03 {

// gmem points to the tile's first row. Its rows are WIDTH elements long and contiguous, here as in
// shared memory. `rows` of them exist, which may be fewer than HEIGHT, or more. thread_index() is 0
// to NUM_THREADS - 1. The caller commits and waits.
template <int HEIGHT, int WIDTH, int NUM_THREADS>
FA_DEVICE void copy_tile(uint32_t smem, const bf16* gmem, int rows) {
  exercise::todo("TODO(03.1): a loop over this thread's chunks, with one cp_async_16 in it");
}

}  // namespace FA_BACKEND::ex03
