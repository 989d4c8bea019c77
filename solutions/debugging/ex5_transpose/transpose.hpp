#pragma once
// out = in.T of a 32x32 tile, through shared memory.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::debugging {

constexpr int TILE = 32;
constexpr int NUM_THREADS = 128;
// Floats from one row of shared memory to the next. 32 floats are in 32 banks. So a pitch that is a
// multiple of 32 puts a column into one bank, and an odd pitch puts it into 32 different banks.
constexpr int PITCH = TILE + 1;
constexpr uint32_t SMEM_BYTES = 8192;

FA_KERNEL void transpose(const float* in, float* out) {
  const int column = thread_index() % TILE, first_row = thread_index() / TILE;
  const auto smem = [](int row, int col) {
    return dynamic_smem() + (row * PITCH + col) * static_cast<uint32_t>(sizeof(float));
  };
  for (int row = first_row; row < TILE; row += NUM_THREADS / TILE)
    store_shared<float>(smem(row, column), load_global(in + row * TILE + column));
  block_sync();
  for (int row = first_row; row < TILE; row += NUM_THREADS / TILE)
    store_global(out + row * TILE + column, load_shared<float>(smem(column, row)));
}

}  // namespace FA_BACKEND::debugging
