#pragma once
// Small kernels that show where elements go, for this chapter's functions, ldmatrix and mma on
// marked numbers. layout.cpp runs them.

#include "attention.hpp"

namespace FA_BACKEND::ch03 {

// 32 rows of 8 elements in shared memory, numbered from 0. Lane t passes the address of row t.
// Lanes whose address must not be used pass an invalid one.
template <int MATRICES, bool TRANS>
FA_KERNEL void load_matrices(uint32_t* registers) {  // [32][MATRICES]
  const uint32_t row = dynamic_smem() + lane_index() * 16;
  for (int i = 0; i < 8; ++i)
    store_shared<uint16_t>(row + i * 2, static_cast<uint16_t>(lane_index() * 8 + i));
  warp_sync();
  const uint32_t address = lane_index() < 8 * MATRICES ? row : 0xdead0000u;
  uint32_t r[MATRICES];
  if constexpr (MATRICES == 1) TRANS ? ldmatrix_x1_trans(r, address) : ldmatrix_x1(r, address);
  if constexpr (MATRICES == 2) TRANS ? ldmatrix_x2_trans(r, address) : ldmatrix_x2(r, address);
  if constexpr (MATRICES == 4) TRANS ? ldmatrix_x4_trans(r, address) : ldmatrix_x4(r, address);
  for (int i = 0; i < MATRICES; ++i) store_global(registers + lane_index() * MATRICES + i, r[i]);
}

// S = Q @ K.T by this chapter's functions, Q and K [16, 16].
FA_KERNEL void scores(const bf16* Q, const bf16* K, uint32_t* Q_registers,  // [32][4]
                      float* S) {                                           // [32][2 tiles][4]
  const uint32_t Q_smem = dynamic_smem(), K_smem = Q_smem + MMA_M * MMA_K * sizeof(bf16);
  load_tile<MMA_M, MMA_K, WARP_SIZE>(Q_smem, Q, 0, MMA_M);
  load_tile<2 * MMA_N, MMA_K, WARP_SIZE>(K_smem, K, 0, 2 * MMA_N);
  cp_async_commit();
  cp_async_wait<0>();
  block_sync();
  uint32_t Q_rmem[1][1][4];
  float S_rmem[1][2][4] = {};
  load_fragments_Q(Q_rmem, Q_smem);
  multiply_query_key(S_rmem, Q_rmem, K_smem);
  for (int i = 0; i < 4; ++i) store_global(Q_registers + lane_index() * 4 + i, Q_rmem[0][0][i]);
  for (int i = 0; i < 8; ++i) store_global(S + lane_index() * 8 + i, S_rmem[0][i / 4][i % 4]);
}

FA_KERNEL void multiply(const uint32_t* A, const uint32_t* B, float* C) {  // [32][4], [2], [4]
  uint32_t a[4], b[2];
  float c[4] = {};
  for (int i = 0; i < 4; ++i) a[i] = load_global(A + lane_index() * 4 + i);
  for (int i = 0; i < 2; ++i) b[i] = load_global(B + lane_index() * 2 + i);
  mma_m16n8k16(a, b, c);
  for (int i = 0; i < 4; ++i) store_global(C + lane_index() * 4 + i, c[i]);
}

// P of two tiles of S whose exponentials are the numbers 1, 2, ... in the order [lane][tile][c].
FA_KERNEL void weights(uint32_t* P) {  // [32][4]
  float S_rmem[1][2][4], l[1][2] = {};
  const float m[1][2] = {}, rescale[1][2] = {};
  for (int i = 0; i < 8; ++i)
    S_rmem[0][i / 4][i % 4] = log(static_cast<float>(lane_index() * 8 + i + 1));
  uint32_t P_rmem[1][1][4];
  exponentiate_and_pack(P_rmem, S_rmem, m, l, rescale, NoBreaks{});
  for (int i = 0; i < 4; ++i) store_global(P + lane_index() * 4 + i, P_rmem[0][0][i]);
}

}  // namespace FA_BACKEND::ch03
