#pragma once
// out = in.T of a 32x32 tile, through shared memory.
// TODO(D.5): this kernel is slow; find the line and mend it

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::debugging {

constexpr int TILE = 32;
constexpr int NUM_THREADS = 128;
constexpr int PITCH = TILE + TILE;  // floats from one row of shared memory to the next, padded
constexpr uint32_t SMEM_BYTES = 8192;

FA_KERNEL void transpose(const float* in, float* out) {
  const int column = thread_index() % TILE, first_row = thread_index() / TILE;
  const auto smem = [](int row, int col) {
    return dynamic_smem() + (row * PITCH + (col ^ row % 8)) * static_cast<uint32_t>(sizeof(float));
  };
  for (int row = first_row; row < TILE; row += NUM_THREADS / TILE)
    store_shared<float>(smem(row, column), load_global(in + row * TILE + column));
  block_sync();
  for (int row = first_row; row < TILE; row += NUM_THREADS / TILE)
    store_global(out + row * TILE + column, load_shared<float>(smem(column, row)));
}

}  // namespace FA_BACKEND::debugging
