#pragma once
// dQ in a separate kernel, where a block has a tile of queries and iterates over the keys, so no
// other block adds to its dQ. S and dP are computed twice, which takes seven products instead of
// five.

#include "preprocess.hpp"

namespace FA_BACKEND::ch10 {

constexpr int DQ_BLOCK_Q = 128, DQ_BLOCK_KV = 64;

template <class T, int HEAD_DIM, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(256, 1)
void query_tiles(const Params p, Breaks breaks) {
  constexpr int NUM_THREADS = 256, WARP_Q = DQ_BLOCK_Q / (NUM_THREADS / WARP_SIZE);
  constexpr uint32_t ROW_BYTES = HEAD_DIM * ELEMENT;
  constexpr uint32_t Q_TILE_BYTES = DQ_BLOCK_Q * ROW_BYTES, KV_TILE_BYTES = DQ_BLOCK_KV * ROW_BYTES;
  constexpr int MMAS_KV = DQ_BLOCK_KV / MMA_N;
  using Scores = float[1][MMAS_KV][4];

  // As in chapter 09, the tiles that see the most keys start first.
  const auto [head, y, batch] = block_index_3d();
  const int q_tile = grid_size().y - 1 - y;
  const int kv_head = head / p.group, first_query = q_tile * DQ_BLOCK_Q;
  const int end_query = first_query + DQ_BLOCK_Q < p.len_q ? first_query + DQ_BLOCK_Q : p.len_q;
  const auto end_of = [&](int query) {  // end of the keys that this query sees
    return query + p.diagonal < p.len_kv ? query + p.diagonal + 1 : p.len_kv;
  };
  const int end_key = end_of(end_query - 1);
  const int count = end_key > 0 ? ceil_div(end_key, DQ_BLOCK_KV) : 0;
  const int warp_row = shfl(warp_index(), 0) * WARP_Q;

  const uint32_t Q_smem = dynamic_smem();
  const uint32_t dO_smem = Q_smem + Q_TILE_BYTES;
  const uint32_t K_smem = dO_smem + Q_TILE_BYTES;      // two tiles
  const uint32_t V_smem = K_smem + 2 * KV_TILE_BYTES;  // two
  const Rows K = rows_of(p.K, batch, kv_head, p.len_kv, p.dim);
  const Rows V = rows_of(p.V, batch, kv_head, p.len_kv, p.dim);
  const auto load = [&](int n) {
    if (n < count) {
      load_tile<DQ_BLOCK_KV, HEAD_DIM, NUM_THREADS>(K_smem + n % 2 * KV_TILE_BYTES, K, n,
                                                    thread_index());
      load_tile<DQ_BLOCK_KV, HEAD_DIM, NUM_THREADS>(V_smem + n % 2 * KV_TILE_BYTES, V, n,
                                                    thread_index());
    }
    cp_async_commit();
  };
  load_tile<DQ_BLOCK_Q, HEAD_DIM, NUM_THREADS>(Q_smem, rows_of(p.Q, batch, head, p.len_q, p.dim),
                                               q_tile, thread_index());
  load_tile<DQ_BLOCK_Q, HEAD_DIM, NUM_THREADS>(dO_smem, rows_of(p.dO, batch, head, p.len_q, p.dim),
                                               q_tile, thread_index());
  load(0);

  int end[2];
  float lse[2], d[2];  // for row lane/4, then for row lane/4 + 8
  for (int half = 0; half < 2; ++half) {
    const int row = first_query + warp_row + half * 8 + lane_index() / 4;
    const int64_t at = tile_index(p, batch, head, 0) * BLOCK_Q + row;
    end[half] = end_of(row);
    lse[half] = row < p.len_q ? load_global(p.LSE_log2 + at) : -NEG_INF;
    d[half] = row < p.len_q ? load_global(p.D + at) : 0.0f;
  }

  float dQ_rmem[1][HEAD_DIM / MMA_N][4] = {};
  FA_NO_UNROLL
  for (int n = 0; n < count; ++n) {
    load(n + 1);
    cp_async_wait<1>();
    block_sync();  // this tile's K and V have landed
    const uint32_t K_tile = K_smem + n % 2 * KV_TILE_BYTES;
    Scores S_rmem = {}, dP_rmem = {};
    multiply_rows<T, HEAD_DIM>(S_rmem, Q_smem + warp_row * ROW_BYTES, K_tile);  // S = Q @ K.T
    multiply_rows<T, HEAD_DIM>(dP_rmem, dO_smem + warp_row * ROW_BYTES,
                               V_smem + n % 2 * KV_TILE_BYTES);  // dP = dO @ V.T
    for (int mma_kv = 0; mma_kv < MMAS_KV; ++mma_kv)
      for (int i = 0; i < 4; ++i) {
        const int key = n * DQ_BLOCK_KV + mma_kv * MMA_N + lane_index() % 4 * 2 + i % 2;
        float s = S_rmem[0][mma_kv][i];
        if (key >= end[i / 2] && !breaks.has(fa::UNMASKED_BACKWARD)) s = NEG_INF;
        const float weight = exp2(fma(s, p.scale_log2, -lse[i / 2]));
        dP_rmem[0][mma_kv][i] = weight * (dP_rmem[0][mma_kv][i] - d[i / 2]);  // dS = P o (dP - D)
      }
    uint32_t dS_rmem[MMAS_KV / 2][1][4];
    pack_rows<T>(dS_rmem, dP_rmem);
    multiply_weights<T, ROW_BYTES>(dQ_rmem, dS_rmem, K_tile);  // dQ += dS @ K
    block_sync();  // all warps have read this tile, so the next but one may overwrite it
  }
  store_rows<T>(p.dQ, batch, head, first_query + warp_row, p.len_q, p.dim,
                K_smem + warp_row * ROW_BYTES, dQ_rmem, p.scale);
}

template <int HEAD_DIM>
constexpr size_t query_tiles_smem() {
  return (2 * DQ_BLOCK_Q + 4 * DQ_BLOCK_KV) * HEAD_DIM * ELEMENT;
}

}  // namespace FA_BACKEND::ch10
