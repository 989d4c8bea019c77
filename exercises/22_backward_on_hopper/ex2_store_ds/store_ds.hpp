#pragma once
// dS.T from registers to shared memory, where dQ's product reads it.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex22 {

// dS.T in shared memory: [KEYS, 64] for queries 0 to 63, then the same panel for the next 64.
// A row of a panel has 128 bytes, and its 16-byte chunk c is stored at chunk c ^ row % 8.
constexpr int KEYS = 32, ROW_BYTES = 128, PANEL_BYTES = KEYS * ROW_BYTES;

// One warp has the 16 rows of dS.T from `row` (a multiple of 16), in STEPS operands A [16, 16],
// where dS_rmem[s] holds queries 16 s to 16 s + 15. The registers of an operand are 8x8 matrices:
//   0: rows 0-7, queries 0-7    1: rows 8-15, queries 0-7    2: rows 0-7, queries 8-15    3: the
//   rest
// stmatrix_x4(address, registers) stores all four. Lane 8 i + r gives the address of row r of
// matrix i, which is that of the 16 bytes that this row takes in shared memory. lane_index() is the
// lane.
template <int STEPS>
FA_DEVICE void store_dS(uint32_t dS_smem, int row, const uint32_t (&dS_rmem)[STEPS][4]) {
  exercise::todo("TODO(22.2): one stmatrix_x4 per step, at the lane's swizzled address");
}

}  // namespace FA_BACKEND::ex22
