#pragma once
// Registers 0 and 1 are the first B, keys 0-7 and 8-15 of the same 8 columns. So lanes 0-15 count
// down 16 rows. Lanes 16-31 do the same one chunk to the right, for the second B.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex06 {

template <int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_D][4],
                                      const uint32_t (&P_rmem)[MMAS_KV][4], uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * sizeof(bf16);
  const uint32_t lane_offset = lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16;
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    for (int mma_d = 0; mma_d < MMAS_D; mma_d += 2) {
      uint32_t V_rmem[4];
      ldmatrix_x4_trans(V_rmem, V_smem + lane_offset + mma_kv * MMA_K * ROW_BYTES + mma_d * 16);
      mma_m16n8k16(P_rmem[mma_kv], {V_rmem[0], V_rmem[1]}, O_rmem[mma_d]);
      mma_m16n8k16(P_rmem[mma_kv], {V_rmem[2], V_rmem[3]}, O_rmem[mma_d + 1]);
    }
}

}  // namespace FA_BACKEND::ex06
