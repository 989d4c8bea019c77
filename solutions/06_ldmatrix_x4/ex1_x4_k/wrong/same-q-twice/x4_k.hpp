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
  // 8 keys: d 0-7 | d 8-15 | d 16-23 | d 24-31
  const uint32_t lane_offset = lane_index() % 8 * ROW_BYTES + lane_index() / 8 * 16;
  for (int kv = 0; kv < MMAS_KV; ++kv)
    for (int d = 0; d < MMAS_D; d += 2) {
      uint32_t r[4];
      ldmatrix_x4(r, K_smem + kv * MMA_N * ROW_BYTES + d * MMA_K * sizeof(bf16) + lane_offset);
      mma_m16n8k16(Q_rmem[d], {r[0], r[1]}, S_rmem[kv]);
      mma_m16n8k16(Q_rmem[d], {r[2], r[3]}, S_rmem[kv]);
    }
}

}  // namespace FA_BACKEND::ex06
