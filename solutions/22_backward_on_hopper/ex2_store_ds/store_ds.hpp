#pragma once
// Matrix 1 is below matrix 0, so lanes 0 to 15 give the addresses of their 16 rows (lane % 16). The
// swizzle is needed because rows are 128 bytes apart, so that without it a column of chunks would
// be in the same four banks.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex22 {

// dS.T in shared memory: [KEYS, 64] for queries 0 to 63, then the same panel for the next 64.
// A row of a panel has 128 bytes, and its 16-byte chunk c is stored at chunk c ^ row % 8.
constexpr int KEYS = 32, ROW_BYTES = 128, PANEL_BYTES = KEYS * ROW_BYTES;

// One warp has the 16 rows of dS.T from `row` (a multiple of 16), in STEPS operands A [16, 16],
// where dS_rmem[s] holds queries 16 s to 16 s + 15.
template <int STEPS>
FA_DEVICE void store_dS(uint32_t dS_smem, int row, const uint32_t (&dS_rmem)[STEPS][4]) {
  const int lane = lane_index();
  const uint32_t row_smem = dS_smem + (row + lane % 16) * ROW_BYTES;
  for (int step = 0; step < STEPS; ++step) {
    const int chunk = 2 * step + lane / 16;
    const int place = chunk % 8 ^ lane % 8;
    stmatrix_x4(row_smem + chunk / 8 * PANEL_BYTES + place * 16, dS_rmem[step]);
  }
}

}  // namespace FA_BACKEND::ex22
