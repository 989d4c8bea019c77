#pragma once
// Thread t takes chunk t, so that the 32 lanes of a warp read 512 neighbouring bytes, which are 16
// whole sectors. A row that does not exist is copied with source_bytes 0. A skipped copy would
// leave old bytes in the tile, and an old NaN times a weight of 0 is NaN.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

template <int HEIGHT, int WIDTH, int NUM_THREADS>
FA_DEVICE void copy_tile(uint32_t smem, const bf16* gmem, int rows) {
  constexpr int CHUNK = 16 / sizeof(bf16);
  for (int chunk = thread_index(); chunk < HEIGHT * WIDTH / CHUNK; chunk += NUM_THREADS) {
    const int row = chunk / (WIDTH / CHUNK);
    const int source_bytes = row < rows ? 16 : 0;
    cp_async_16(smem + chunk * 16, gmem + chunk * CHUNK, source_bytes);
  }
}

}  // namespace FA_BACKEND::ex03
