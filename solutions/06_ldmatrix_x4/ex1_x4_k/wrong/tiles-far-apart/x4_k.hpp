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
  const int key = lane_index() % 8 + lane_index() / 16 * 8;
  const int right = lane_index() / 8 % 2;
  for (int j = 0; j < MMAS_KV / 2; ++j) {
    for (int i = 0; i < MMAS_D; ++i) {
      uint32_t B[4];
      ldmatrix_x4(B, K_smem + (16 * j + key) * ROW_BYTES + i * 32 + right * 16);
      mma_m16n8k16(Q_rmem[i], {B[0], B[1]}, S_rmem[j]);
      mma_m16n8k16(Q_rmem[i], {B[2], B[3]}, S_rmem[j + MMAS_KV / 2]);
    }
  }
}

}  // namespace FA_BACKEND::ex06
