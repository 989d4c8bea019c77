#pragma once
// Sums the columns of a matrix that comes through shared memory, one tile at a time.
// TODO(D.3): this kernel is wrong; find the line and mend it

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::debugging {

constexpr int NUM_THREADS = 64;
constexpr uint32_t CHUNK_BYTES = 16;  // 4 floats, a thread's part of a tile

// A tile is one row of NUM_THREADS chunks. Thread t copies chunk t, and adds up the first float of
// chunk 63 - t, which the other warp has copied.
FA_KERNEL void sum_tiles(const float* tiles, float* sums, int num_tiles) {
  const uint32_t mine = dynamic_smem() + thread_index() * CHUNK_BYTES;
  const uint32_t theirs = dynamic_smem() + (NUM_THREADS - 1 - thread_index()) * CHUNK_BYTES;
  float sum = 0;
  for (int tile = 0; tile < num_tiles; ++tile) {
    cp_async_16(mine, tiles + (tile * NUM_THREADS + thread_index()) * 4, CHUNK_BYTES);
    cp_async_commit();
    block_sync();
    cp_async_wait<0>();
    sum += load_shared<float>(theirs);
    block_sync();
  }
  store_global(sums + thread_index(), sum);
}

}  // namespace FA_BACKEND::debugging
