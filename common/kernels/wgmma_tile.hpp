#pragma once
// Which bytes of a tile a wgmma reads. Taught in chapter 13.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND {

// A tile of HEIGHT rows in shared memory: panels of 64 columns, side by side in the matrix, one
// behind the other here, each row of them 128 bytes, swizzled. wgmma multiplies 16 columns or 16
// rows of it at a time, and takes a descriptor of them.
template <int HEIGHT>
struct Tile {
  static constexpr uint32_t ROW_BYTES = 128, GROUP_BYTES = 8 * ROW_BYTES;
  static constexpr uint32_t PANEL_BYTES = HEIGHT * ROW_BYTES;
  static constexpr int PANEL_MMAS = 64 / MMA_K;  // of 16 columns

  // All rows, columns 16 mma_d to 16 mma_d + 15: the sum runs along a row. The next 8 rows are
  // GROUP_BYTES away.
  FA_DEVICE static uint64_t columns(uint32_t smem, int mma_d) {
    return advance_descriptor(wgmma_descriptor(smem, 16, GROUP_BYTES, Swizzle::bytes_128),
                              mma_d / PANEL_MMAS * PANEL_BYTES + mma_d % PANEL_MMAS * 32);
  }
  // Rows 16 mma_kv to 16 mma_kv + 15, all columns: the sum runs down a column. The next 8 rows are
  // GROUP_BYTES away, the next 64 columns PANEL_BYTES.
  FA_DEVICE static uint64_t rows(uint32_t smem, int mma_kv) {
    return advance_descriptor(wgmma_descriptor(smem, PANEL_BYTES, GROUP_BYTES, Swizzle::bytes_128),
                              mma_kv * MMA_K * ROW_BYTES);
  }
};

}  // namespace FA_BACKEND
