#pragma once

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex12 {

constexpr int TILE_ROWS = 8;
constexpr uint32_t TILE_BYTES = TILE_ROWS * 128;
template <class Steps>
FA_DEVICE void stream_tiles(Steps& steps, const TensorMap& map, uint32_t smem, uint32_t full,
                            int num_tiles) {
  if (thread_index() == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
  }
  block_sync();
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (thread_index() == 0) {
      mbarrier_arrive_expect_tx(full, TILE_BYTES);
      tma_load_2d(smem, map, 0, tile * TILE_BYTES, full);
    }
    mbarrier_wait(full, tile % 2);
    steps.read();
    block_sync();
  }
}

}  // namespace FA_BACKEND::ex12
