#pragma once
// One buffer, one mbarrier, tiles one after the other.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex12 {

constexpr int TILE_ROWS = 8;
constexpr uint32_t TILE_BYTES = TILE_ROWS * 128;  // a box {64, TILE_ROWS} of bf16

// Called by all 64 threads of a block. Tile t begins at row t * TILE_ROWS of the map, where tiles
// are 0 to num_tiles - 1. Each comes to the buffer `smem`, and then every thread calls steps.read()
// once, which reads a piece of the buffer. `full` is the address of the mbarrier's 8 bytes, not
// initialized yet. You call mbarrier_init(full, arrivals), fence_mbarrier_init(), block_sync(),
//        mbarrier_arrive_expect_tx(full, bytes), tma_load_2d(smem, map, column, row, full),
//        mbarrier_wait(full, parity), of 0 or 1. thread_index() says which thread this is.
template <class Steps>
FA_DEVICE void stream_tiles(Steps& steps, const TensorMap& map, uint32_t smem, uint32_t full,
                            int num_tiles) {
  exercise::todo("TODO(12.4): the mbarrier, then the loop: copy, wait, read");
}

}  // namespace FA_BACKEND::ex12
