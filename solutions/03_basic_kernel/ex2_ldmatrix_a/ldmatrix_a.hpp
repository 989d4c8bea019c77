#pragma once
// Matrix 1 is below matrix 0, so lanes 0-15 count down 16 rows (lane % 16). Matrices 2 and 3 are
// the same rows, one chunk of 16 bytes to the right (lane / 16).

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

template <int MMAS_D>
FA_DEVICE void load_fragments_A(uint32_t (&A_rmem)[MMAS_D][4], uint32_t A_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_K * sizeof(bf16);
  const uint32_t lane_offset = lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16;
  for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
    ldmatrix_x4(A_rmem[mma_d], A_smem + lane_offset + mma_d * MMA_K * sizeof(bf16));
}

}  // namespace FA_BACKEND::ex03
