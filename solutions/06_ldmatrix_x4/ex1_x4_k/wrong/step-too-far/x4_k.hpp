#pragma once
// S += Q @ K.T with ldmatrix.x4

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex06 {

// K_smem: row-major [MMAS_KV * 8 keys, MMAS_D * 16], 2-byte elements, not swizzled. Both counts are
// even. Q_rmem[i]: operand A, columns 16 i to 16 i + 15. S_rmem[j]: keys 8 j to 8 j + 7.
template <int MMAS_KV, int MMAS_D>
FA_DEVICE void multiply_query_key(float (&S_rmem)[MMAS_KV][4], const uint32_t (&Q_rmem)[MMAS_D][4],
                                  uint32_t K_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_K * sizeof(bf16);
  const int lane = lane_index();
  const uint32_t lane_address = K_smem + lane % 8 * ROW_BYTES + lane / 8 * 16;
  for (int j = 0; j < MMAS_KV; ++j) {
    const uint32_t keys = lane_address + j * MMA_N * ROW_BYTES;
    for (int i = 0; i < MMAS_D; i += 2) {
      uint32_t r[4];
      ldmatrix_x4(r, keys + i * 64);  // 32 of d
      mma_m16n8k16(Q_rmem[i], {r[0], r[1]}, S_rmem[j]);
      mma_m16n8k16(Q_rmem[i + 1], {r[2], r[3]}, S_rmem[j]);
    }
  }
}

}  // namespace FA_BACKEND::ex06
