#pragma once
// Two warps share 32 keys. One computes S, P and dV, the other dP, dS, dK and dQ. Each holds one of
// the two sums, so a warp's tile has 32 rows and a fragment of Q or dO serves twice as many mma.

#include "preprocess.hpp"

namespace FA_BACKEND::ch10 {

template <class T, int HEAD_DIM, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(256, 1)
void two_roles(const Params p, Breaks breaks) {
  constexpr int PAIRS = 4, ROLE_THREADS = PAIRS * WARP_SIZE, WARP_KV = BLOCK_KV / PAIRS;
  constexpr uint32_t ROW_BYTES = HEAD_DIM * ELEMENT;
  constexpr uint32_t Q_TILE_BYTES = BLOCK_Q * ROW_BYTES, KV_TILE_BYTES = BLOCK_KV * ROW_BYTES;
  constexpr int MMAS_M = WARP_KV / MMA_M, MMAS_Q = BLOCK_Q / MMA_N, MMAS_D = HEAD_DIM / MMA_N;
  constexpr uint32_t P_BYTES = BLOCK_KV * BLOCK_Q * ELEMENT;
  using Scores = float[MMAS_M][MMAS_Q][4];
  using Packed = uint32_t[MMAS_Q / 2][MMAS_M][4];

  const Work work(p);
  if (work.batch >= p.batches) return;  // no such head
  const int count = work.count;
  if (breaks.has(fa::LATE_ZERO) && work.kv_tile == 0)
    clear_dQ<HEAD_DIM, 256>(p, tile_index(p, work.batch, work.kv_head * p.group, 0),
                            p.group * p.q_tiles);
  const int warp = shfl(warp_index(), 0), pair = warp % PAIRS;
  const int warp_row = pair * WARP_KV;  // this warp's first key in the tile

  const uint32_t K_smem = dynamic_smem();
  const uint32_t V_smem = K_smem + KV_TILE_BYTES;
  const uint32_t Q_smem = V_smem + KV_TILE_BYTES;       // three tiles
  const uint32_t dO_smem = Q_smem + 3 * Q_TILE_BYTES;   // two
  const uint32_t dS_smem = dO_smem + 2 * Q_TILE_BYTES;  // two, [BLOCK_KV, BLOCK_Q]
  const uint32_t P_smem = dS_smem + 2 * DS_TILE_BYTES;  // one, as packed in registers
  const uint32_t rows_smem = P_smem + P_BYTES;          // three, LSE_log2 and D
  const uint32_t P_lane = P_smem + pair * (P_BYTES / PAIRS) + lane_index() * 16;

  float sum_rmem[MMAS_M][MMAS_D][4] = {};  // dV or dK
  const auto store = [&](const Tensor& tensor, uint32_t smem, float factor) {
    store_rows<T>(tensor, work.batch, work.kv_head, work.kv_tile * BLOCK_KV + warp_row, p.len_kv,
                  p.dim, smem + warp_row * ROW_BYTES, sum_rmem, factor);
  };

  // Barriers 1 to PAIRS belong to the pairs. At the next two the roles meet, each from its own
  // place in the code. block_sync() needs all threads at the same place.
  constexpr int MEET = 1 + PAIRS;

  if (warp < PAIRS) {
    const auto meet_others = [] {
      barrier_arrive(MEET, 2 * ROLE_THREADS);
      barrier_sync(MEET + 1, 2 * ROLE_THREADS);
    };
    Place next(work, p);            // the next tile to load
    const auto load = [&](int n) {  // the n-th tile of queries
      if (n < count) {
        const auto [head, q_tile] = next;
        const int thread = opaque(thread_index());  // recomputed so that addresses take no
                                                    // registers between loads
        load_rows<ROLE_THREADS>(rows_smem + n % 3 * ROWS_BYTES, p,
                                tile_index(p, work.batch, head, q_tile), thread);
        const Rows Q = rows_of(p.Q, work.batch, head, p.len_q, p.dim);
        const Rows dO = rows_of(p.dO, work.batch, head, p.len_q, p.dim);
        load_tile<BLOCK_Q, HEAD_DIM, ROLE_THREADS>(Q_smem + n % 3 * Q_TILE_BYTES, Q, q_tile,
                                                   thread);
        load_tile<BLOCK_Q, HEAD_DIM, ROLE_THREADS>(dO_smem + n % 2 * Q_TILE_BYTES, dO, q_tile,
                                                   thread);
      }
      next.advance(work, p);
      cp_async_commit();
    };
    load_tile<BLOCK_KV, HEAD_DIM, ROLE_THREADS>(
        K_smem, rows_of(p.K, work.batch, work.kv_head, p.len_kv, p.dim), work.kv_tile,
        thread_index());
    load_tile<BLOCK_KV, HEAD_DIM, ROLE_THREADS>(
        V_smem, rows_of(p.V, work.batch, work.kv_head, p.len_kv, p.dim), work.kv_tile,
        thread_index());
    load(0);
    load(1);
    cp_async_wait<1>();
    meet_others();  // K, V and the first tile have landed
    Place at(work, p);
    FA_NO_UNROLL
    for (int n = 0; n < count; ++n, at.advance(work, p)) {
      // [anchor: p_and_dv]
      Scores S_rmem = {};
      multiply_rows<T, HEAD_DIM>(S_rmem, K_smem + warp_row * ROW_BYTES,
                                 Q_smem + n % 3 * Q_TILE_BYTES);  // S.T = K @ Q.T
      if (!breaks.has(fa::UNMASKED_BACKWARD) && needs_mask(p, work.kv_tile, at.q_tile))
        mask_scores(S_rmem, p, work.kv_tile * BLOCK_KV + warp_row, at.q_tile * BLOCK_Q);
      exponentiate(S_rmem, rows_smem + n % 3 * ROWS_BYTES, p.scale_log2);
      Packed P_rmem;
      pack_rows<T>(P_rmem, S_rmem);
      for (int k = 0; k < MMAS_Q / 2; ++k)
        for (int m = 0; m < MMAS_M; ++m)
          store_shared<Chunk>(P_lane + (k * MMAS_M + m) * 512,
                              {P_rmem[k][m][0], P_rmem[k][m][1], P_rmem[k][m][2], P_rmem[k][m][3]});
      barrier_arrive(1 + pair, 2 * WARP_SIZE);  // the partner may read P
      multiply_weights<T, ROW_BYTES>(sum_rmem, P_rmem,
                                     dO_smem + n % 2 * Q_TILE_BYTES);  // dV += P.T @ dO
      await_turn(p, work, at, breaks);
      cp_async_wait<0>();  // the next tile has landed
      // After this barrier, the next tile and dS are complete. All warps have read this dO and P,
      // and the previous iteration's Q, dS and LSE, which may now be overwritten.
      meet_others();
      if (n > 0) pass_turn(p, work, at.before(work, p));
      load(n + 2);
      // [/anchor: p_and_dv]
    }
    if (p.deterministic) meet_others();  // the last dQ is added
    if (count > 0) pass_turn(p, work, at.before(work, p));
    store(p.dV, V_smem, 1.0f);  // no warp reads V or dO after the last barrier
  } else {
    const auto meet_others = [] {
      barrier_sync(MEET, 2 * ROLE_THREADS);
      barrier_arrive(MEET + 1, 2 * ROLE_THREADS);
    };
    meet_others();
    Place at(work, p);
    FA_NO_UNROLL
    for (int n = 0; n < count; ++n, at.advance(work, p)) {
      // [anchor: ds_and_dk]
      Scores dP_rmem = {};
      multiply_rows<T, HEAD_DIM>(dP_rmem, V_smem + warp_row * ROW_BYTES,
                                 dO_smem + n % 2 * Q_TILE_BYTES);  // dP.T = V @ dO.T
      barrier_sync(1 + pair, 2 * WARP_SIZE);
      Packed P_rmem;
      for (int k = 0; k < MMAS_Q / 2; ++k)
        for (int m = 0; m < MMAS_M; ++m) {
          const Chunk chunk = load_shared<Chunk>(P_lane + (k * MMAS_M + m) * 512);
          for (int i = 0; i < 4; ++i) P_rmem[k][m][i] = chunk.word[i];
        }
      differentiate_softmax<T>(P_rmem, dP_rmem, rows_smem + n % 3 * ROWS_BYTES);
      const auto& dS_rmem = P_rmem;
      const uint32_t dS_tile = dS_smem + n % 2 * DS_TILE_BYTES;
      store_dS(dS_tile, warp_row, dS_rmem);
      meet_others();

      multiply_weights<T, ROW_BYTES>(sum_rmem, dS_rmem,
                                     Q_smem + n % 3 * Q_TILE_BYTES);  // dK += dS.T @ Q
      constexpr int DQ_MMAS_D = MMAS_D / PAIRS;
      float dQ_rmem[BLOCK_Q / MMA_M][DQ_MMAS_D][4] = {};
      multiply_keys<T, HEAD_DIM>(dQ_rmem, dS_tile, 0, K_smem, pair * DQ_MMAS_D * MMA_N);
      add_dQ<HEAD_DIM>(p, work, at, 0, pair * DQ_MMAS_D, dQ_rmem);
      // [/anchor: ds_and_dk]
    }
    if (p.deterministic) meet_others();
    store(p.dK, dO_smem, breaks.has(fa::NO_SCALE_IN_DK) ? 1.0f : p.scale);
  }
}

template <int HEAD_DIM>
constexpr size_t two_roles_smem() {
  return (2 * BLOCK_KV + 5 * BLOCK_Q) * HEAD_DIM * ELEMENT + 2 * DS_TILE_BYTES +
         BLOCK_KV * BLOCK_Q * ELEMENT + 3 * ROWS_BYTES;
}

}  // namespace FA_BACKEND::ch10
