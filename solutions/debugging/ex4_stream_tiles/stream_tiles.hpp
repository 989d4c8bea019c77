#pragma once
// The same sums with two buffers, so that the next tile is on its way while this one is added.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::debugging {

constexpr int NUM_THREADS = 64;
constexpr uint32_t CHUNK_BYTES = 16;  // 4 floats: a thread's part of a tile
constexpr uint32_t TILE_BYTES = NUM_THREADS * CHUNK_BYTES;

// Thread t copies chunk t of each tile, and adds up the first float of chunk 63 - t.
FA_KERNEL void stream_tiles(const float* tiles, float* sums, int num_tiles) {
  const auto chunk = [](int tile, int thread) {
    return dynamic_smem() + tile % 2 * TILE_BYTES + thread * CHUNK_BYTES;
  };
  const auto load_tile = [&](int tile) {  // commits a group, an empty one after the last tile
    if (tile < num_tiles) {
      cp_async_16(chunk(tile, thread_index()), tiles + (tile * NUM_THREADS + thread_index()) * 4,
                  CHUNK_BYTES);
    }
    cp_async_commit();
  };

  float sum = 0;
  load_tile(0);
  for (int tile = 0; tile < num_tiles; ++tile) {
    cp_async_wait<0>();
    block_sync();
    // All warps have read the last tile: its buffer is the one that load_tile fills. Before the
    // barrier a fast warp would overwrite what a slow one still reads.
    load_tile(tile + 1);
    sum += load_shared<float>(chunk(tile, NUM_THREADS - 1 - thread_index()));
  }
  store_global(sums + thread_index(), sum);
}

}  // namespace FA_BACKEND::debugging
