#pragma once
// O += P @ V with ldmatrix.x4

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex06 {

// V_smem: row-major [MMAS_KV * 16 keys, MMAS_D * 8], 2-byte elements, not swizzled. MMAS_D is even.
// P_rmem[j]: operand A, keys 16 j to 16 j + 15. O_rmem[i]: columns 8 i to 8 i + 7.
template <int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_D][4],
                                      const uint32_t (&P_rmem)[MMAS_KV][4], uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * sizeof(bf16);
  const uint32_t lane_offset = lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16;
  for (int kv = 0; kv < MMAS_KV; ++kv)
    for (int d = 0; d < MMAS_D; d += 2) {
      uint32_t r[4];
      ldmatrix_x4_trans(r,
                        V_smem + kv * MMA_K * ROW_BYTES + d * MMA_N * sizeof(bf16) + lane_offset);
      mma_m16n8k16(P_rmem[kv], {r[1], r[0]}, O_rmem[d]);
      mma_m16n8k16(P_rmem[kv], {r[3], r[2]}, O_rmem[d + 1]);
    }
}

}  // namespace FA_BACKEND::ex06
