#pragma once

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex06 {

template <int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_D][4],
                                      const uint32_t (&P_rmem)[MMAS_KV][4], uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * sizeof(bf16);
  const uint32_t lane_offset =
      (lane_index() / 16 * 8 + lane_index() % 8) * ROW_BYTES + lane_index() / 8 % 2 * 16;
  for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
    for (int mma_d = 0; mma_d < MMAS_D; mma_d += 2) {
      uint32_t V_rmem[4];
      ldmatrix_x4_trans(V_rmem, V_smem + lane_offset + mma_kv * MMA_K * ROW_BYTES + mma_d * 16);
      mma_m16n8k16(P_rmem[mma_kv], {V_rmem[0], V_rmem[1]}, O_rmem[mma_d]);
      mma_m16n8k16(P_rmem[mma_kv], {V_rmem[2], V_rmem[3]}, O_rmem[mma_d + 1]);
    }
}

}  // namespace FA_BACKEND::ex06
