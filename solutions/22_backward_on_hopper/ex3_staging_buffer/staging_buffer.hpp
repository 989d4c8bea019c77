#pragma once
// There are two barriers, because the copy engine must not read before the tile is stored, and the
// tile must not be overwritten before the engine has read it. The fence is needed because the
// engine reads through the async proxy, and a fence must be between the stores and the read.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex22 {

constexpr int STORING_THREADS = 64, THREADS = STORING_THREADS + 32;
constexpr int TILE_FLOATS = 256;
constexpr uint32_t TILE_BYTES = TILE_FLOATS * sizeof(float);

// Named barriers, each for all THREADS threads. One side calls barrier_sync(barrier, THREADS) and
// waits, while the other one calls barrier_arrive(barrier, THREADS) and continues.
enum : int { STORED = 1, FREE = 2 };

// Called by each of the 64 storing threads, once per tile, with tile = 0, 1, 2, …
template <class Steps>
FA_DEVICE void hand_over(Steps& steps, int tile) {
  if (tile > 0) barrier_sync(FREE, THREADS);  // the buffer is free at the start
  steps.store(tile);
  fence_proxy_async();
  barrier_arrive(STORED, THREADS);
}

// Called once by the 32 threads of the adding warp.
FA_DEVICE void add_tiles(float* sums, uint32_t smem, int tiles) {
  for (int tile = 0; tile < tiles; ++tile) {
    barrier_sync(STORED, THREADS);
    if (lane_index() == 0) {
      bulk_reduce_add(sums + tile * TILE_FLOATS, smem, TILE_BYTES);
      tma_store_commit();
      tma_store_wait_read<0>();  // waits for this thread's groups
    }
    warp_sync();
    if (tile + 1 < tiles) barrier_arrive(FREE, THREADS);  // for every wait there is one arrival
  }
}

}  // namespace FA_BACKEND::ex22
