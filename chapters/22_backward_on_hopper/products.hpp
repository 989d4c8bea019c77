#pragma once
// The five products of a pair of tiles, each started by one warpgroup, and the steps between them.
// Scores are transposed, keys by queries, so that P and dS in registers are operand A of dV and dK.
// (FlashAttention-3's idea.)

#include "breaks.hpp"
#include "common/kernels/wgmma_tile.hpp"

// The steps of chapter 10, in this chapter's namespace ch22::ch10.
#define FA_CH10 ch22::ch10
#include "chapters/10_backward/preprocess.hpp"

namespace FA_BACKEND::ch22 {

using ch10::BLOCK_KV;
using ch10::ELEMENT;
using ch10::Params;

// A tile of queries has the same number of elements at both head sizes: 64 x 128 or 128 x 64.
constexpr int TILE_ELEMENTS = 8192;
constexpr uint32_t TILE_BYTES = TILE_ELEMENTS * ELEMENT;
constexpr int WARPGROUP_KEYS = 64;

// [anchor: multiply_rows]
// Starts C.T = A @ B.T + the summands of each query   [64, 8 MMAS_Q], summed over HEAD_DIM:
// S.T = K @ Q.T - LSE / scale, dP.T = V @ dO.T - D.
template <class T, int HEAD_DIM, int MMAS_Q>
FA_DEVICE void multiply_rows(float (&C_rmem)[1][MMAS_Q][4],
                             uint32_t A_smem,  // this warpgroup's rows of K or V
                             uint32_t B_smem,  // Q or dO
                             uint32_t (&ones)[4], uint32_t summands_smem) {
  using ATile = Tile<BLOCK_KV>;
  using BTile = Tile<MMAS_Q * MMA_N>;
  wgmma_fence();
  // 16 bytes per query are 8 values of k. The other 8, by which A multiplies with zeros, are read
  // from the same bytes (0 bytes away). The summands are bf16 for both types.
  wgmma<bf16, Major::k>(C_rmem[0], ones, wgmma_descriptor(summands_smem, 0, 128, Swizzle::none),
                        false);
  for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K; ++mma_d)
    wgmma<T>(C_rmem[0], ATile::columns(A_smem, mma_d), BTile::columns(B_smem, mma_d), true);
  wgmma_commit();
}
// [/anchor: multiply_rows]

// Starts C += A @ B   [64, HEAD_DIM], summed over the tile's queries: dV += P.T @ dO, dK += dS.T @
// Q. A is in registers.
template <class T, int MMAS_D, int MMAS_Q>
FA_DEVICE void multiply_weights(float (&C_rmem)[1][MMAS_D][4], uint32_t (&A_rmem)[MMAS_Q][1][4],
                                uint32_t B_smem) {  // dO or Q
  using BTile = Tile<MMAS_Q * MMA_K>;
  wgmma_fence();  // ordinary instructions have written A
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    wgmma<T, Major::mn>(C_rmem[0], A_rmem[mma_q][0], BTile::rows(B_smem, mma_q), true);
  wgmma_commit();
}

// [anchor: multiply_keys]
// Starts dQ = dS @ K   [64, 64], summed over the block's keys, which are those of both warpgroups.
// dS is stored as dS.T. Both descriptors say that the sum runs down the columns, so no tile has to
// be transposed.
template <class T, class Breaks>
FA_DEVICE void multiply_keys(float (&dQ_rmem)[1][8][4], uint32_t dS_smem, uint32_t K_smem,
                             Breaks breaks) {
  using KVTile = Tile<BLOCK_KV>;  // dS and K have one row per key
  wgmma_fence();
  for (int mma_kv = 0; mma_kv < BLOCK_KV / MMA_K; ++mma_kv) {
    if (breaks.has(fa::SWAPPED_TRANSPOSE)) {
      wgmma<T, Major::k, Major::mn>(dQ_rmem[0], KVTile::columns(dS_smem, mma_kv % 4),
                                    KVTile::rows(K_smem, mma_kv), mma_kv > 0);
      continue;
    }
    wgmma<T, Major::mn, Major::mn>(dQ_rmem[0], KVTile::rows(dS_smem, mma_kv),
                                   KVTile::rows(K_smem, mma_kv), mma_kv > 0);
  }
  wgmma_commit();
}
// [/anchor: multiply_keys]

// [anchor: summands]
// Returns what the products of S and dP add for a query: -LSE / scale and -D, each as three bf16
// numbers whose sum has the 24 bits of an fp32. P is 0 where LSE is inf.
FA_DEVICE ch10::Chunk summands_of(float LSE_log2, float D, float scale_log2) {
  constexpr float LOWEST = -3.38953139e38f;  // of a bf16, because 0 * inf would be NaN
  float rest[2] = {LSE_log2 == -NEG_INF ? LOWEST : -LSE_log2 / scale_log2, -D};
  uint32_t pieces[6];
  for (int i = 0; i < 6; ++i) {
    pieces[i] = pack<bf16>(rest[i / 3], 0.0f);
    rest[i / 3] -= unpack_low<bf16>(pieces[i]);
  }
  return {
      {pieces[0] | pieces[1] << 16, pieces[2] | pieces[3] << 16, pieces[4] | pieces[5] << 16, 0}};
}

// Operand A of that step has ones for the three summands of LSE, k = 0, 1, 2, or those of D, k = 3,
// 4, 5. A lane has k = 2 (lane % 4) and the next one of two rows, which are equal.
struct Ones {
  uint32_t LSE[4] = {}, D[4] = {};

  FA_DEVICE Ones() {
    constexpr uint32_t LOW = 0x3f80, HIGH = LOW << 16;  // 1 in bf16
    const int k = lane_index() % 4 * 2;
    LSE[0] = LSE[1] = k == 0 ? LOW | HIGH : k == 2 ? LOW : 0;
    D[0] = D[1] = k == 2 ? HIGH : k == 4 ? LOW | HIGH : 0;
  }
};
// [/anchor: summands]

// P = exp(scale S), with LSE subtracted in S already. P replaces S, and rounded it is operand A.
template <class T, int MMAS_Q>
FA_DEVICE void exponentiate(uint32_t (&P_rmem)[MMAS_Q / 2][1][4], float (&S_rmem)[1][MMAS_Q][4],
                            float scale_log2) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {  // key lane/4, then key lane/4 + 8
      float* s = &S_rmem[0][mma_q][half * 2];
      s[0] = exp2(s[0] * scale_log2);
      s[1] = exp2(s[1] * scale_log2);
      P_rmem[mma_q / 2][0][mma_q % 2 * 2 + half] = pack<T>(s[0], s[1]);
    }
}

template <int MMAS_K>
FA_DEVICE void copy(uint32_t (&to)[MMAS_K][1][4], const uint32_t (&from)[MMAS_K][1][4]) {
  for (int mma_k = 0; mma_k < MMAS_K; ++mma_k)
    for (int i = 0; i < 4; ++i) to[mma_k][0][i] = from[mma_k][0][i];
}

// dS = P o dP, rounded, with D subtracted in dP already.
template <class T, int MMAS_Q>
FA_DEVICE void differentiate_softmax(uint32_t (&dS_rmem)[MMAS_Q / 2][1][4],
                                     const float (&P_rmem)[1][MMAS_Q][4],
                                     const float (&dP_rmem)[1][MMAS_Q][4]) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const float* p = &P_rmem[0][mma_q][half * 2];
      const float* dp = &dP_rmem[0][mma_q][half * 2];
      dS_rmem[mma_q / 2][0][mma_q % 2 * 2 + half] = pack<T>(p[0] * dp[0], p[1] * dp[1]);
    }
}
// The same with the rounded P, which dS replaces.
template <class T, int MMAS_Q>
FA_DEVICE void differentiate_softmax(uint32_t (&P_rmem)[MMAS_Q / 2][1][4],
                                     const float (&dP_rmem)[1][MMAS_Q][4]) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      uint32_t& p = P_rmem[mma_q / 2][0][mma_q % 2 * 2 + half];
      const float* dp = &dP_rmem[0][mma_q][half * 2];
      p = pack<T>(unpack_low<T>(p) * dp[0], unpack_high<T>(p) * dp[1]);
    }
}

// Sets the scores of keys before the window to -inf. `first_seen` is the first key that the tile's
// first query sees, and the next query's is one later.
template <int MMAS_Q>
FA_DEVICE void mask_window_start(float (&S_rmem)[1][MMAS_Q][4], int first_key, int first_seen) {
  const int start = first_seen + lane_index() % 4 * 2 - (first_key + lane_index() / 4);
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int i = 0; i < 4; ++i)
      if (i / 2 * 8 < start + mma_q * MMA_N + i % 2) S_rmem[0][mma_q][i] = NEG_INF;
}

// [anchor: store_operand]
// Stores a warp's 16 rows of an operand A in a tile of HEIGHT rows, starting at row `row`.
template <int HEIGHT, int MMAS_K>
FA_DEVICE void store_operand(uint32_t tile_smem, int row, const uint32_t (&A_rmem)[MMAS_K][1][4]) {
  using ATile = Tile<HEIGHT>;
  const int lane = lane_index();
  // Lane 8 i + r passes the address of row r of matrix i, in the order of rows 0-7, rows 8-15, then
  // the same rows of the next 8 columns. 16-byte chunk c of a row is stored at chunk c ^ row % 8.
  const uint32_t smem = tile_smem + (row + lane % 16) * ATile::ROW_BYTES;
  const int chunk = lane / 16, swizzle = lane % 8;
  for (int mma_k = 0; mma_k < MMAS_K; ++mma_k)
    stmatrix_x4(smem + mma_k / ATile::PANEL_MMAS * ATile::PANEL_BYTES +
                    ((mma_k % ATile::PANEL_MMAS * 2 + chunk) ^ swizzle) * 16,
                A_rmem[mma_k][0]);
}
// [/anchor: store_operand]

}  // namespace FA_BACKEND::ch22
