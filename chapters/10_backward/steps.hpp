#pragma once
// The steps of the backward pass between its products, on transposed scores. A lane has c0 c1
// (key lane/4, queries 2 (lane%4) and the next) and c2 c3 (key lane/4 + 8) of a 16x8 tile.

#include "common/kernels/softmax.hpp"
#include "products.hpp"

namespace FA_BACKEND::FA_CH10 {

// 16 bytes, which a lane moves at a time.
struct alignas(16) Chunk {
  uint32_t word[4];
};

// LSE_log2 and D of a tile of queries in shared memory, one after the other.
constexpr uint32_t ROWS_BYTES = 2 * BLOCK_Q * sizeof(float);

template <int NUM_THREADS>
FA_DEVICE void load_rows(uint32_t smem, const Params& p, int64_t tile, int thread, FA_SITE) {
  static_assert(NUM_THREADS >= 32, "16 bytes a thread");
  if (thread >= 32) return;
  const float* from = (thread < 16 ? p.LSE_log2 : p.D) + tile * BLOCK_Q + thread % 16 * 4;
  cp_async_16(smem + thread * 16, from, 16, line, file);
}

// The values of the two queries that this lane has in columns [8 mma_q, 8 mma_q + 8) of a tile.
struct Pair {
  float x, y;
};
FA_DEVICE Pair pair_of(uint32_t rows_smem, int mma_q) {
  return load_shared<Pair>(rows_smem +
                           (mma_q * MMA_N + opaque(lane_index()) % 4 * 2) * sizeof(float));
}

// True if a tile of keys has masked scores for this tile of queries, or extends past the last key.
FA_DEVICE bool needs_mask(const Params& p, int kv_tile, int q_tile) {
  const int last_key = kv_tile * BLOCK_KV + BLOCK_KV - 1;
  return last_key >= p.len_kv || last_key > q_tile * BLOCK_Q + p.diagonal;
}

// S = -inf for masked scores, which are keys after the query's own, and past the last. The
// zero-filled rows of K score 0, and exp(0 - LSE) is Inf where all scores are small, and Inf times
// K's zeros is NaN.
template <int MMAS_M, int MMAS_Q>
FA_DEVICE void mask_scores(float (&S_rmem)[MMAS_M][MMAS_Q][4], const Params& p, int first_key,
                           int first_query) {
  const int lane = lane_index(), first = first_key + lane / 4;
  const int exist = p.len_kv - first;  // number of keys from there
  const int seen = first_query + lane % 4 * 2 + p.diagonal + 1 - first;
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int odd = 0; odd < 2; ++odd) {
      const int seen_here = seen + mma_q * MMA_N + odd;
      const int end = seen_here < exist ? seen_here : exist;
      for (int mma_m = 0; mma_m < MMAS_M; ++mma_m)
        for (int half = 0; half < 2; ++half)
          if (mma_m * MMA_M + half * 8 >= end) S_rmem[mma_m][mma_q][half * 2 + odd] = NEG_INF;
    }
}

// P = exp(scale S - LSE), without a maximum or a sum, because LSE contains them. Rows past the end
// and fully masked rows have an LSE of +inf here, so P = 0.
template <int MMAS_M, int MMAS_Q>
FA_DEVICE void exponentiate(float (&S_rmem)[MMAS_M][MMAS_Q][4], uint32_t rows_smem,
                            float scale_log2) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
    const Pair lse = pair_of(rows_smem, mma_q);
    for (int mma_m = 0; mma_m < MMAS_M; ++mma_m)
      for (int i = 0; i < 4; ++i) {
        float& s = S_rmem[mma_m][mma_q][i];
        s = exp2(fma(s, scale_log2, -(i % 2 == 0 ? lse.x : lse.y)));
      }
  }
}

// Converts transposed scores to operand A of a product over the queries, rounded.
template <class T, int MMAS_M, int MMAS_Q>
FA_DEVICE void pack_rows(uint32_t (&A_rmem)[MMAS_Q / 2][MMAS_M][4],
                         const float (&S_rmem)[MMAS_M][MMAS_Q][4]) {
  for (int mma_k = 0; mma_k < MMAS_Q / 2; ++mma_k)
    for (int mma_m = 0; mma_m < MMAS_M; ++mma_m)
      for (int i = 0; i < 4; ++i) {
        const float* s = &S_rmem[mma_m][mma_k * 2 + i / 2][i % 2 * 2];
        A_rmem[mma_k][mma_m][i] = pack<T>(s[0], s[1]);
      }
}

// dS = P o (dP - D), with the rounded P. dS is rounded as well and replaces P.
template <class T, int MMAS_M, int MMAS_Q>
FA_DEVICE void differentiate_softmax(uint32_t (&P_rmem)[MMAS_Q / 2][MMAS_M][4],
                                     const float (&dP_rmem)[MMAS_M][MMAS_Q][4],
                                     uint32_t rows_smem) {
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q) {
    const Pair d = pair_of(rows_smem + BLOCK_Q * sizeof(float), mma_q);
    for (int mma_m = 0; mma_m < MMAS_M; ++mma_m)
      for (int half = 0; half < 2; ++half) {
        uint32_t& p = P_rmem[mma_q / 2][mma_m][mma_q % 2 * 2 + half];
        const float* dp = &dP_rmem[mma_m][mma_q][half * 2];
        p = pack<T>(unpack_low<T>(p) * (dp[0] - d.x), unpack_high<T>(p) * (dp[1] - d.y));
      }
  }
}

// Stores dS.T, rounded, to shared memory [BLOCK_KV, BLOCK_Q], for the warps that multiply it by K.
template <int MMAS_M, int MMAS_K>
FA_DEVICE void store_dS(uint32_t dS_smem, int first_key,
                        const uint32_t (&dS_rmem)[MMAS_K][MMAS_M][4]) {
  const uint32_t tile = dS_smem + first_key * DS_ROW_BYTES;
  const uint32_t lane =
      swizzle<DS_ROW_BYTES>(lane_index() / 4 * DS_ROW_BYTES) + lane_index() % 4 * 4;
  for (int mma_k = 0; mma_k < MMAS_K; ++mma_k)
    for (int mma_m = 0; mma_m < MMAS_M; ++mma_m)
      for (int i = 0; i < 4; ++i) {
        const int row = mma_m * MMA_M + i % 2 * 8, chunk = mma_k * 2 + i / 2;
        store_shared<uint32_t>(tile + along_row(lane, chunk * 16) + row * DS_ROW_BYTES,
                               dS_rmem[mma_k][mma_m][i]);
      }
}

// dQ is summed in fp32 with 32 lanes side by side, so that register i of mma tile (mma_q, mma_d) of
// all lanes forms 128 contiguous bytes.
template <int HEAD_DIM>
FA_HOST_DEVICE constexpr int dQ_place(int mma_q, int mma_d, int i) {
  return ((mma_q * (HEAD_DIM / MMA_N) + mma_d) * 4 + i) * WARP_SIZE;
}

// [anchor: turns]
// With --deterministic, the blocks add to a tile of dQ in one order. Returns how many blocks add
// before this one. All of them were started earlier, so each is running or has finished. The block
// with the last tile of keys that the queries see adds first. Under a causal mask, it reaches this
// tile of dQ in its first steps.
FA_DEVICE int turn_of(const Params& p, int kv_tile, int q_tile) {
  const int last_key = q_tile * BLOCK_Q + BLOCK_Q - 1 + p.diagonal, last = last_key / BLOCK_KV;
  return (last < p.kv_tiles ? last : p.kv_tiles - 1) - kv_tile;
}

// One thread waits for the block's turn. After the next barrier, the block adds to dQ.
template <class Breaks>
FA_DEVICE void await_turn(const Params& p, const Work& work, const Place& at, Breaks breaks) {
  if (!p.deterministic || thread_index() != 0 || breaks.has(fa::UNORDERED_DQ)) return;
  const int turn = turn_of(p, work.kv_tile, at.q_tile);
  while (load_acquire(p.turns + tile_index(p, work.batch, at.head, at.q_tile)) != turn) {
  }
}

// One thread reports that its block has added. All threads added before the last barrier.
FA_DEVICE void pass_turn(const Params& p, const Work& work, const Place& at) {
  if (!p.deterministic || thread_index() != 0) return;
  store_release(p.turns + tile_index(p, work.batch, at.head, at.q_tile),
                turn_of(p, work.kv_tile, at.q_tile) + 1);
}
// [/anchor: turns]

// [anchor: add_dQ]
// Adds a warp's part of a tile of dQ, starting at mma tile (mma_q, mma_d).
template <int HEAD_DIM, int MMAS_M, int MMAS_N>
FA_DEVICE void add_dQ(const Params& p, const Work& work, const Place& at, int mma_q, int mma_d,
                      const float (&dQ_rmem)[MMAS_M][MMAS_N][4]) {
  const int64_t tile = tile_index(p, work.batch, at.head, at.q_tile);
  float* const dQ_sum =
      p.dQ_sum + tile * (BLOCK_Q * HEAD_DIM) + (dQ_place<HEAD_DIM>(mma_q, mma_d, 0) + lane_index());
  FA_UNROLL
  for (int m = 0; m < MMAS_M; ++m)
    for (int n = 0; n < MMAS_N; ++n)
      for (int i = 0; i < 4; ++i)
        atomic_add(dQ_sum + dQ_place<HEAD_DIM>(m, n, i), dQ_rmem[m][n][i]);
}
// [/anchor: add_dQ]

// Stores this warp's rows of dQ, dK or dV, [16 MMAS_M, HEAD_DIM], times `factor`, rounded, to
// global memory. They go through as many rows of shared memory, so that a lane writes 16 bytes.
template <class T, int MMAS_M, int MMAS_D>
FA_DEVICE void store_rows(const Tensor& tensor, int batch, int head, int first_row, int len,
                          int cols, uint32_t smem, const float (&C_rmem)[MMAS_M][MMAS_D][4],
                          float factor) {
  constexpr int ROW_BYTES = MMAS_D * MMA_N * ELEMENT, ROW_CHUNKS = ROW_BYTES / 16;
  const int lane = lane_index();
  const uint32_t to = swizzle<ROW_BYTES>(lane / 4 * ROW_BYTES) + lane % 4 * 4;
  for (int mma_m = 0; mma_m < MMAS_M; ++mma_m)
    for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
      for (int half = 0; half < 2; ++half) {
        const float* c = &C_rmem[mma_m][mma_d][half * 2];
        store_shared<uint32_t>(
            smem + (mma_m * MMA_M + half * 8) * ROW_BYTES + (to ^ (mma_d * MMA_N * ELEMENT)),
            pack<T>(c[0] * factor, c[1] * factor));
      }
  warp_sync();
  char* const gmem = tensor.data + batch * tensor.batch + head * tensor.head;
  for (int chunk = lane; chunk < MMAS_M * MMA_M * ROW_CHUNKS; chunk += WARP_SIZE) {
    const int row = first_row + chunk / ROW_CHUNKS, col = chunk % ROW_CHUNKS * 8;
    const Chunk value = load_shared<Chunk>(smem + swizzle<ROW_BYTES>(chunk * 16));
    if (row < len && col < cols)
      store_global(reinterpret_cast<Chunk*>(gmem + int64_t{row} * tensor.row + col * ELEMENT),
                   value);
  }
}

}  // namespace FA_BACKEND::FA_CH10
