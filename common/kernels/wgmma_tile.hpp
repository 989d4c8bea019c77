#pragma once
// Makes the descriptors of the parts of a tile that a wgmma reads. Chapter 13 teaches it.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND {

// A tile of HEIGHT rows in shared memory. Panels of 64 columns, which are next to each other in the
// matrix, are stored one after another. Each row of a panel has 128 bytes and is swizzled. A wgmma
// multiplies 16 columns or 16 rows of the tile, given by a descriptor.
template <int HEIGHT>
struct Tile {
  static constexpr uint32_t ROW_BYTES = 128, GROUP_BYTES = 8 * ROW_BYTES;
  static constexpr uint32_t PANEL_BYTES = HEIGHT * ROW_BYTES;
  static constexpr int PANEL_MMAS = 64 / MMA_K;  // one per 16 columns

  // Returns the descriptor of columns 16 mma_d to 16 mma_d + 15 in all rows, where the sum runs
  // along a row. The next 8 rows are GROUP_BYTES away.
  FA_DEVICE static uint64_t columns(uint32_t smem, int mma_d) {
    return advance_descriptor(wgmma_descriptor(smem, 16, GROUP_BYTES, Swizzle::bytes_128),
                              mma_d / PANEL_MMAS * PANEL_BYTES + mma_d % PANEL_MMAS * 32);
  }
  // Returns the descriptor of rows 16 mma_kv to 16 mma_kv + 15 in all columns, where the sum runs
  // down a column. The next 8 rows are GROUP_BYTES away, the next 64 columns PANEL_BYTES.
  FA_DEVICE static uint64_t rows(uint32_t smem, int mma_kv) {
    return advance_descriptor(wgmma_descriptor(smem, PANEL_BYTES, GROUP_BYTES, Swizzle::bytes_128),
                              mma_kv * MMA_K * ROW_BYTES);
  }
};

}  // namespace FA_BACKEND
