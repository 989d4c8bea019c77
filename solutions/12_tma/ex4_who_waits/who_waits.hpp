#pragma once
// All threads wait, because a wait covers only the thread that waits. One barrier per tile
// separates the reads of a tile from the copy of the next one. Before the first tile, it makes the
// mbarrier known to all threads.

#include "common/kernels/geometry.hpp"

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
  if (thread_index() == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
  }
  for (int tile = 0; tile < num_tiles; ++tile) {
    block_sync();  // there is an mbarrier; all have read the last tile
    if (thread_index() == 0) {
      mbarrier_arrive_expect_tx(full, TILE_BYTES);
      tma_load_2d(smem, map, 0, tile * TILE_ROWS, full);
    }
    mbarrier_wait(full, tile % 2);
    steps.read();
  }
}

}  // namespace FA_BACKEND::ex12
