#pragma once
// A block has a tile of keys and iterates over the queries. A warp owns some of the keys. Their
// part of S, P, dP and dS stays in its registers, as in the forward pass, and so do their dK and
// dV. Only dS goes through shared memory, because dQ sums over the keys of all warps and, by atomic
// additions, over those of all blocks.

#include "preprocess.hpp"

namespace FA_BACKEND::ch10 {

// Without WITH_DQ it is the first of two kernels, and nothing is shared.
template <class T, int HEAD_DIM, int WARP_KV, bool WITH_DQ, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(BLOCK_KV / WARP_KV * 32, WARP_KV / 16)
void key_tiles(const Params p, Breaks breaks) {
  constexpr int NUM_THREADS = BLOCK_KV / WARP_KV * WARP_SIZE;
  constexpr uint32_t ROW_BYTES = HEAD_DIM * ELEMENT;
  constexpr uint32_t Q_TILE_BYTES = BLOCK_Q * ROW_BYTES, KV_TILE_BYTES = BLOCK_KV * ROW_BYTES;
  constexpr int MMAS_M = WARP_KV / MMA_M, MMAS_Q = BLOCK_Q / MMA_N, MMAS_D = HEAD_DIM / MMA_N;
  using Scores = float[MMAS_M][MMAS_Q][4];

  const Work work(p);
  if (work.batch >= p.batches) return;  // no such head
  const int count = work.count;
  if (WITH_DQ && breaks.has(fa::LATE_ZERO) && work.kv_tile == 0)
    clear_dQ<HEAD_DIM, NUM_THREADS>(p, tile_index(p, work.batch, work.kv_head * p.group, 0),
                                    p.group * p.q_tiles);
  const int warp_row = shfl(warp_index(), 0) * WARP_KV;  // this warp's first key in the tile

  const uint32_t K_smem = dynamic_smem();
  const uint32_t V_smem = K_smem + KV_TILE_BYTES;
  const uint32_t Q_smem = V_smem + KV_TILE_BYTES;       // three tiles
  const uint32_t dO_smem = Q_smem + 3 * Q_TILE_BYTES;   // two
  const uint32_t dS_smem = dO_smem + 2 * Q_TILE_BYTES;  // two, [BLOCK_KV, BLOCK_Q]
  const uint32_t rows_smem = dS_smem + (WITH_DQ ? 2 * DS_TILE_BYTES : 0);  // two, LSE_log2 and D

  Place next(work, p);            // the next tile to load
  const auto load = [&](int n) {  // the n-th tile of queries
    if (n < count) {
      const auto [head, q_tile] = next;
      const int thread = opaque(thread_index());  // recomputed so that addresses take no registers
                                                  // between loads
      const Rows Q = rows_of(p.Q, work.batch, head, p.len_q, p.dim);
      const Rows dO = rows_of(p.dO, work.batch, head, p.len_q, p.dim);
      load_tile<BLOCK_Q, HEAD_DIM, NUM_THREADS>(Q_smem + n % 3 * Q_TILE_BYTES, Q, q_tile, thread);
      load_tile<BLOCK_Q, HEAD_DIM, NUM_THREADS>(dO_smem + n % 2 * Q_TILE_BYTES, dO, q_tile, thread);
      load_rows<NUM_THREADS>(rows_smem + n % 2 * ROWS_BYTES, p,
                             tile_index(p, work.batch, head, q_tile), thread);
    }
    next.advance(work, p);
    cp_async_commit();
  };

  float dK_rmem[MMAS_M][MMAS_D][4] = {}, dV_rmem[MMAS_M][MMAS_D][4] = {};

  load_tile<BLOCK_KV, HEAD_DIM, NUM_THREADS>(
      K_smem, rows_of(p.K, work.batch, work.kv_head, p.len_kv, p.dim), work.kv_tile,
      thread_index());
  load_tile<BLOCK_KV, HEAD_DIM, NUM_THREADS>(
      V_smem, rows_of(p.V, work.batch, work.kv_head, p.len_kv, p.dim), work.kv_tile,
      thread_index());
  load(0);
  load(1);
  cp_async_wait<1>();
  block_sync();  // every thread's part of K, V and the first tile has landed

  Place at(work, p);
  FA_NO_UNROLL
  for (int n = 0; n < count; ++n, at.advance(work, p)) {
    const uint32_t Q_tile = Q_smem + n % 3 * Q_TILE_BYTES;
    const uint32_t dO_tile = dO_smem + n % 2 * Q_TILE_BYTES;
    const uint32_t rows = rows_smem + n % 2 * ROWS_BYTES;

    // [anchor: one_step]
    Scores S_rmem = {};
    multiply_rows<T, HEAD_DIM>(S_rmem, K_smem + warp_row * ROW_BYTES, Q_tile);  // S.T = K @ Q.T
    if (!breaks.has(fa::UNMASKED_BACKWARD) && needs_mask(p, work.kv_tile, at.q_tile))
      mask_scores(S_rmem, p, work.kv_tile * BLOCK_KV + warp_row, at.q_tile * BLOCK_Q);
    exponentiate(S_rmem, rows, p.scale_log2);
    uint32_t P_rmem[MMAS_Q / 2][MMAS_M][4];
    pack_rows<T>(P_rmem, S_rmem);
    multiply_weights<T, ROW_BYTES>(dV_rmem, P_rmem, dO_tile);  // dV += P.T @ dO

    Scores dP_rmem = {};
    multiply_rows<T, HEAD_DIM>(dP_rmem, V_smem + warp_row * ROW_BYTES, dO_tile);  // dP.T = V @ dO.T
    differentiate_softmax<T>(P_rmem, dP_rmem, rows);  // dS = P o (dP - D)
    const auto& dS_rmem = P_rmem;
    const uint32_t dS_tile = dS_smem + n % 2 * DS_TILE_BYTES;
    if constexpr (WITH_DQ) store_dS(dS_tile, warp_row, dS_rmem);

    if constexpr (WITH_DQ) await_turn(p, work, at, breaks);
    cp_async_wait<0>();  // the next tile
    // After this barrier, the next tile and the dS of all warps are complete. All warps have read
    // this dO and the previous iteration's Q and dS, which may now be overwritten.
    block_sync();
    if (WITH_DQ && n > 0) pass_turn(p, work, at.before(work, p));
    load(n + 2);

    multiply_weights<T, ROW_BYTES>(dK_rmem, dS_rmem, Q_tile);  // dK += dS.T @ Q
    if constexpr (WITH_DQ) {
      constexpr int WARPS_Q = 2, WARPS_D = BLOCK_KV / WARP_KV / WARPS_Q;
      constexpr int DQ_MMAS_Q = BLOCK_Q / WARPS_Q / MMA_M, DQ_MMAS_D = MMAS_D / WARPS_D;
      const int mma_q = warp_row / WARP_KV / WARPS_D * DQ_MMAS_Q;
      const int mma_d = warp_row / WARP_KV % WARPS_D * DQ_MMAS_D;
      float dQ_rmem[DQ_MMAS_Q][DQ_MMAS_D][4] = {};
      multiply_keys<T, HEAD_DIM>(dQ_rmem, dS_tile, mma_q * MMA_M, K_smem, mma_d * MMA_N);
      add_dQ<HEAD_DIM>(p, work, at, mma_q, mma_d, dQ_rmem);
    }
    // [/anchor: one_step]
  }

  if (WITH_DQ && p.deterministic) {
    block_sync();  // the last dQ is added
    if (count > 0) pass_turn(p, work, at.before(work, p));
  }
  // No warp reads V or dO after the last barrier, so the rows are stored through their memory.
  const auto store = [&](const Tensor& tensor, uint32_t smem, const auto& C_rmem, float factor) {
    store_rows<T>(tensor, work.batch, work.kv_head, work.kv_tile * BLOCK_KV + warp_row, p.len_kv,
                  p.dim, smem + warp_row * ROW_BYTES, C_rmem, factor);
  };
  store(p.dK, V_smem, dK_rmem, breaks.has(fa::NO_SCALE_IN_DK) ? 1.0f : p.scale);
  store(p.dV, dO_smem, dV_rmem, 1.0f);
}

template <int HEAD_DIM, bool WITH_DQ>
constexpr size_t key_tiles_smem() {
  return (2 * BLOCK_KV + 5 * BLOCK_Q) * HEAD_DIM * ELEMENT + (WITH_DQ ? 2 * DS_TILE_BYTES : 0) +
         2 * ROWS_BYTES;
}

}  // namespace FA_BACKEND::ch10
