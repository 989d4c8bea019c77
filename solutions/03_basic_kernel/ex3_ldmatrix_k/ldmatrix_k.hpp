#pragma once
// A register of B holds two neighbours along the sum. The sum is over d, and a row of K holds
// neighbours along d. So K needs no .trans. The second matrix holds the same keys, 8 columns
// further right.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

template <int MMAS_D>
FA_DEVICE void load_fragments_K(uint32_t (&K_rmem)[MMAS_D][2], uint32_t K_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_K * sizeof(bf16);
  const uint32_t lane_offset = lane_index() % 8 * ROW_BYTES + lane_index() / 8 % 2 * 16;
  for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
    ldmatrix_x2(K_rmem[mma_d], K_smem + lane_offset + mma_d * MMA_K * sizeof(bf16));
}

}  // namespace FA_BACKEND::ex03
