#pragma once
// Registers 0 and 1 are the first B. Matrices 0 and 1 hold the same 8 keys, d 0-7 and d 8-15, so
// bit 3 of the lane moves right. Matrices 2 and 3 hold the next 8 keys, so bit 4 moves down. The
// two mma then add to two tiles of S, and neither waits for the other.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex06 {

template <int MMAS_KV, int MMAS_D>
FA_DEVICE void multiply_query_key(float (&S_rmem)[MMAS_KV][4], const uint32_t (&Q_rmem)[MMAS_D][4],
                                  uint32_t K_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_K * sizeof(bf16);
  const uint32_t lane_row = lane_index() / 16 * 8 + lane_index() % 8;
  const uint32_t lane_offset = lane_row * ROW_BYTES + lane_index() / 8 % 2 * 16;
  for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
    for (int mma_kv = 0; mma_kv < MMAS_KV; mma_kv += 2) {
      uint32_t K_rmem[4];
      ldmatrix_x4(K_rmem, K_smem + lane_offset + mma_kv * MMA_N * ROW_BYTES + mma_d * 32);
      mma_m16n8k16(Q_rmem[mma_d], {K_rmem[0], K_rmem[1]}, S_rmem[mma_kv]);
      mma_m16n8k16(Q_rmem[mma_d], {K_rmem[2], K_rmem[3]}, S_rmem[mma_kv + 1]);
    }
}

}  // namespace FA_BACKEND::ex06
