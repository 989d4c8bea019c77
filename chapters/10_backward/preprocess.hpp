#pragma once
// What runs before and after the products.

#include "steps.hpp"

namespace FA_BACKEND::ch10 {

// D = rowsum(dO o O), LSE log2(e), dQ_sum = 0, for one tile of queries of one head.
template <class T, int HEAD_DIM, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(256, 1)
void preprocess(const Params p, Breaks breaks) {
  constexpr int LANES = HEAD_DIM / 8;  // that share a row, 16 bytes each
  constexpr int ROWS = 256 / LANES;    // at once
  const int64_t tile = block_index();
  const int q_tile = block_index() % p.q_tiles, head = block_index() / p.q_tiles % p.heads;
  const int batch = block_index() / p.q_tiles / p.heads, col = thread_index() % LANES * 8;
  const Rows O = rows_of(p.O, batch, head, p.len_q, p.dim);
  const Rows dO = rows_of(p.dO, batch, head, p.len_q, p.dim);
  for (int first = 0; first < BLOCK_Q; first += ROWS) {
    const int of_tile = first + thread_index() / LANES, row = q_tile * BLOCK_Q + of_tile;
    float d = 0.0f;
    if (row < p.len_q && col < p.dim) {
      const int64_t at = int64_t{row}, byte = col * ELEMENT;
      const Chunk o = load_global(reinterpret_cast<const Chunk*>(O.data + at * O.stride + byte));
      const Chunk g = load_global(reinterpret_cast<const Chunk*>(dO.data + at * dO.stride + byte));
      for (int i = 0; i < 4; ++i) {
        d = fma(unpack_low<T>(o.word[i]), unpack_low<T>(g.word[i]), d);
        d = fma(unpack_high<T>(o.word[i]), unpack_high<T>(g.word[i]), d);
      }
    }
    for (int mask = LANES / 2; mask > 0; mask /= 2) d += shfl_xor(d, mask);
    if (thread_index() % LANES == 0) {
      // A row that does not exist, or sees no key: P = exp2(S - inf) = 0.
      float lse = -NEG_INF;
      if (row < p.len_q) {
        lse = load_global(p.LSE + (int64_t{batch} * p.heads + head) * p.len_q + row) * LOG2_E;
        if (lse == NEG_INF && !breaks.has(fa::LSE_OF_EMPTY_ROW)) lse = -NEG_INF;
      }
      store_global(p.LSE_log2 + tile * BLOCK_Q + of_tile, lse);
      store_global(p.D + tile * BLOCK_Q + of_tile, breaks.has(fa::NO_D) ? 0.0f : d);
    }
  }
  float* const dQ_sum = p.dQ_sum + tile * (BLOCK_Q * HEAD_DIM);
  for (int at = thread_index() * 4; at < BLOCK_Q * HEAD_DIM; at += 256 * 4)
    if (!breaks.has(fa::LATE_ZERO)) store_global(reinterpret_cast<Chunk*>(dQ_sum + at), Chunk{});
  if (thread_index() == 0) store_global(p.turns + tile, 0);
}

// dQ = scale dQ_sum, rounded, and back in rows.
template <class T, int HEAD_DIM, class Breaks>
FA_KERNEL FA_LAUNCH_BOUNDS(256, 1)
void postprocess(const Params p, Breaks) {
  constexpr int TILES = BLOCK_Q / MMA_M * (HEAD_DIM / MMA_N) / 8;  // mma tiles of a warp
  const int64_t tile = block_index();
  const int q_tile = block_index() % p.q_tiles, head = block_index() / p.q_tiles % p.heads;
  const int batch = block_index() / p.q_tiles / p.heads;
  const float* const dQ_sum = p.dQ_sum + tile * (BLOCK_Q * HEAD_DIM) + lane_index();
  char* const dQ = p.dQ.data + batch * p.dQ.batch + head * p.dQ.head;
  for (int n = 0; n < TILES; ++n) {
    const int of_tile = warp_index() * TILES + n;
    const int mma_q = of_tile / (HEAD_DIM / MMA_N), mma_d = of_tile % (HEAD_DIM / MMA_N);
    float c[4];
    for (int i = 0; i < 4; ++i)
      c[i] = load_global(dQ_sum + dQ_place<HEAD_DIM>(mma_q, mma_d, i)) * p.scale;
    const int col = mma_d * MMA_N + lane_index() % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      const int row = q_tile * BLOCK_Q + mma_q * MMA_M + half * 8 + lane_index() / 4;
      if (row < p.len_q && col < p.dim)
        store_global(reinterpret_cast<uint32_t*>(dQ + int64_t{row} * p.dQ.row + col * ELEMENT),
                     pack<T>(c[half * 2], c[half * 2 + 1]));
    }
  }
}

}  // namespace FA_BACKEND::ch10
