#pragma once
// A warp's recomputations for its own 16 rows, with mma.sync, because wgmma would need all four
// warps. It recomputes the scores of one tile, which its weights overwrote, or all tiles of these
// rows.

#include "chapters/16_maximum_on_demand/params.hpp"
#include "chapters/16_maximum_on_demand/softmax.hpp"
#include "common/kernels/wgmma_tile.hpp"

namespace FA_BACKEND::ch16 {

// [anchor: scores_again]
// S = Q @ K.T   [16, BLOCK_KV], from shared memory. Both tiles are swizzled panels of 64 columns:
// 16-byte chunk c of row r is chunk (c XOR r) mod 8 of its 128 bytes.
template <int HEAD_DIM, int BLOCK_Q, int MMAS_KV>
FA_DEVICE void scores_again(float (&S_rmem)[1][MMAS_KV][4],
                            uint32_t Q_smem,  // this warp's rows of the tile
                            uint32_t K_smem) {
  constexpr int BLOCK_KV = MMAS_KV * MMA_N;
  const uint32_t lane = opaque(lane_index()), row_of_8 = lane % 8;
  const uint32_t Q_lane = Q_smem + lane % 16 * 128;                   // chunk 0, then chunk 1
  const uint32_t K_lane = K_smem + (lane / 16 * 8 + row_of_8) * 128;  // keys 0-7, then 8-15
  for (auto& tile : S_rmem[0])
    for (float& score : tile) score = 0.0f;
  FA_NO_UNROLL
  for (int mma_d = 0; mma_d < HEAD_DIM / MMA_K; ++mma_d) {
    const uint32_t panel = mma_d / 4, chunk = mma_d % 4 * 2;
    uint32_t Q_rmem[4];
    ldmatrix_x4(Q_rmem, Q_lane + panel * Tile<BLOCK_Q>::PANEL_BYTES +
                            ((chunk + lane / 16) ^ row_of_8) * 16);
    const uint32_t K_chunk =
        panel * Tile<BLOCK_KV>::PANEL_BYTES + ((chunk + lane / 8 % 2) ^ row_of_8) * 16;
    for (int mma_kv = 0; mma_kv < MMAS_KV; mma_kv += 2) {
      uint32_t K_rmem[4];
      ldmatrix_x4(K_rmem, K_lane + mma_kv * MMA_N * 128 + K_chunk);
      mma_m16n8k16(Q_rmem, {K_rmem[0], K_rmem[1]}, S_rmem[0][mma_kv]);
      mma_m16n8k16(Q_rmem, {K_rmem[2], K_rmem[3]}, S_rmem[0][mma_kv + 1]);
    }
  }
}
// [/anchor: scores_again]

// 16 rows x 16 columns in the layout of operand A, from global memory. Rows past `last_row`, which
// are masked, are read as that row.
FA_DEVICE void load_16x16(uint32_t (&A_rmem)[4], const char* head, int64_t row_bytes, int row,
                          int col, int last_row) {
  for (int i = 0; i < 4; ++i) {
    const int wanted = row + i % 2 * 8 + lane_index() / 4;
    const char* from = head + (wanted < last_row ? wanted : last_row) * row_bytes;
    A_rmem[i] = load_global(reinterpret_cast<const uint32_t*>(
        from + (col + i / 2 * 8 + lane_index() % 4 * 2) * sizeof(bf16)));
  }
}

// O, m and l of 16 rows over all keys, read from global memory, 16 keys at a time, with the exact
// maximum, so that no weight exceeds 2^8. Slow, and rare.
template <int MMAS_D, class Breaks>
FA_DEVICE void rows_again(float (&O_rmem)[1][MMAS_D][4], float (&m)[1][2], float (&l)[1][2],
                          const Params& p, const Work& work, int first_row, float scale_log2,
                          Breaks breaks) {
  const int last_row = work.len_q - 1, last_key = work.mask.len_kv - 1;
  const int kv_head = work.head / p.group;
  const char* Q = p.Q.at(work.batch, work.head, work.q_start);
  const char* K = p.K.at(work.batch, kv_head, work.kv_start);
  const char* V = p.V.at(work.batch, kv_head, work.kv_start);
  const int bottom = first_row + MMA_M - 1 < last_row ? first_row + MMA_M - 1 : last_row;
  const Tiles<MMA_K> tiles(work.mask, first_row, bottom);
  for (auto& tile : O_rmem[0])
    for (float& o : tile) o = 0.0f;
  for (int half = 0; half < 2; ++half) m[0][half] = NEG_INF, l[0][half] = 0.0f;
  FA_NO_UNROLL
  for (int key = tiles.begin * MMA_K; key < tiles.end * MMA_K; key += MMA_K) {
    float S_rmem[1][2][4] = {}, rescale[1][2];
    FA_NO_UNROLL
    for (int mma_d = 0; mma_d < MMAS_D / 2; ++mma_d) {
      uint32_t Q_rmem[4], K_rmem[4];  // 16 keys of K are two operands B, 0-7 and 8-15
      load_16x16(Q_rmem, Q, p.Q.row, first_row, mma_d * MMA_K, last_row);
      load_16x16(K_rmem, K, p.K.row, key, mma_d * MMA_K, last_key);
      mma_m16n8k16(Q_rmem, {K_rmem[0], K_rmem[2]}, S_rmem[0][0]);
      mma_m16n8k16(Q_rmem, {K_rmem[1], K_rmem[3]}, S_rmem[0][1]);
    }
    mask_scores(S_rmem, work.mask, first_row, key);
    if (raise_row_max(m, l, rescale, S_rmem, scale_log2, breaks)) scale_rows(O_rmem, rescale);
    exponentiate(S_rmem, l[0], m[0], scale_log2);
    uint32_t P_rmem[1][1][4];
    pack(P_rmem, S_rmem);
    for (int mma_d = 0; mma_d < MMAS_D; ++mma_d) {
      uint32_t V_rmem[2];
      for (int i = 0; i < 2; ++i) {
        // opaque, so one operand at a time, because all loads at once would take O's registers
        const int lane = opaque(lane_index()), first = key + i * 8 + lane % 4 * 2;
        const auto value = [&](int at) -> uint32_t {
          const char* from = V + (at < last_key ? at : last_key) * p.V.row;
          return load_global(reinterpret_cast<const uint16_t*>(from) + mma_d * MMA_N + lane / 4);
        };
        V_rmem[i] = value(first) | value(first + 1) << 16;
      }
      mma_m16n8k16(P_rmem[0][0], V_rmem, O_rmem[0][mma_d]);
    }
  }
}

}  // namespace FA_BACKEND::ch16
