#pragma once
// A register of B holds two neighbours along the sum. The sum is over keys, and two keys are two
// rows of V, so V needs .trans. The lanes still give the addresses of rows, because ldmatrix
// transposes each 8x8 matrix after it has read the rows. The second matrix holds the next 8 keys,
// so lanes 0-15 count down 16 rows.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

template <int MMAS_D>
FA_DEVICE void load_fragments_V(uint32_t (&V_rmem)[MMAS_D][2], uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * sizeof(bf16);
  const uint32_t lane_offset = lane_index() % 16 * ROW_BYTES;
  for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
    ldmatrix_x2_trans(V_rmem[mma_d], V_smem + lane_offset + mma_d * MMA_N * sizeof(bf16));
}

}  // namespace FA_BACKEND::ex03
