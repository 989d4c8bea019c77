#pragma once
// One buffer in shared memory between the threads that store a tile of dQ and the warp that adds
// it.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex22 {

constexpr int STORING_THREADS = 64, THREADS = STORING_THREADS + 32;
constexpr int TILE_FLOATS = 256;
constexpr uint32_t TILE_BYTES = TILE_FLOATS * sizeof(float);

// Named barriers, each for all THREADS threads. One side calls barrier_sync(barrier, THREADS) and
// waits, while the other one calls barrier_arrive(barrier, THREADS) and continues.
enum : int { STORED = 1, FREE = 2 };

// Called by each of the 64 storing threads, once per tile, with tile = 0, 1, 2, …
// steps.store(tile) stores this thread's share of the tile in the buffer.
template <class Steps>
FA_DEVICE void hand_over(Steps& steps, int tile) {
  exercise::todo("TODO(22.3): both sides of the buffer");
}

// Called once by the 32 threads of the adding warp. Adds tile t from the buffer at `smem` to sums +
// t * TILE_FLOATS. You call bulk_reduce_add(sums, smem, bytes), tma_store_commit(),
// tma_store_wait_read<N>(), tma_store_wait<N>(), fence_proxy_async(), warp_sync() and both barrier
// calls. lane_index() is the lane.
FA_DEVICE void add_tiles(float* sums, uint32_t smem, int tiles) {
  exercise::todo("TODO(22.3): both sides of the buffer");
}

}  // namespace FA_BACKEND::ex22
