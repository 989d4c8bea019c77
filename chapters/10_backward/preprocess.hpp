#pragma once
// The kernels before and after the products.

#include "steps.hpp"

namespace FA_BACKEND::FA_CH10 {

// Sets this many tiles of the sum of dQ to 0.
template <int HEAD_DIM, int NUM_THREADS>
FA_DEVICE void clear_dQ(const Params& p, int64_t first_tile, int tiles) {
  float* const dQ_sum = p.dQ_sum + first_tile * (BLOCK_Q * HEAD_DIM);
  for (int64_t at = thread_index() * 4; at < int64_t{tiles} * (BLOCK_Q * HEAD_DIM);
       at += NUM_THREADS * 4)
    store_global(reinterpret_cast<Chunk*>(dQ_sum + at), Chunk{});
}

// The rows of the tensors [first, end) of which a tile of queries has the first BLOCK_Q.
struct TileRows {
  int first, end;
  FA_DEVICE TileRows(const Params& p, int q_tile) : first(q_tile * BLOCK_Q), end(p.len_q) {}
  FA_DEVICE void store_summands(const Params&, int64_t, float, float) const {}  // for chapter 22
};

// D = rowsum(dO o O), LSE log2(e), dQ_sum = 0 if there is one, for a tile of one head's queries.
template <class T, int HEAD_DIM, class Breaks, class RowsOfTile = TileRows>
FA_KERNEL FA_LAUNCH_BOUNDS(256, 1)
void preprocess(const Params p, Breaks breaks) {
  constexpr int LANES = HEAD_DIM / 8;  // lanes per row, 16 bytes each
  constexpr int ROWS = 256 / LANES;    // rows at a time
  const int64_t tile = block_index();
  const int q_tile = block_index() % p.q_tiles, head = block_index() / p.q_tiles % p.heads;
  const int batch = block_index() / p.q_tiles / p.heads, col = thread_index() % LANES * 8;
  const Rows O = rows_of(p.O, batch, head, p.len_q, p.dim);
  const Rows dO = rows_of(p.dO, batch, head, p.len_q, p.dim);
  const RowsOfTile rows(p, q_tile);
  for (int first = 0; first < BLOCK_Q; first += ROWS) {
    const int of_tile = first + thread_index() / LANES, row = rows.first + of_tile;
    float d = 0.0f;
    if (row < rows.end && col < p.dim) {
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
      // In a row past the end or a fully masked row, P = exp2(S - inf) = 0.
      float lse = -NEG_INF;
      if (row < rows.end) {
        lse = load_global(p.LSE + (int64_t{batch} * p.heads + head) * p.len_q + row) * LOG2_E;
        if (lse == NEG_INF && !breaks.has(fa::LSE_OF_EMPTY_ROW)) lse = -NEG_INF;
      }
      store_global(p.LSE_log2 + tile * BLOCK_Q + of_tile, lse);
      store_global(p.D + tile * BLOCK_Q + of_tile, breaks.has(fa::NO_D) ? 0.0f : d);
      rows.store_summands(p, tile * BLOCK_Q + of_tile, lse, d);
    }
  }
  if (p.dQ_sum == nullptr) return;
  if (!breaks.has(fa::LATE_ZERO)) clear_dQ<HEAD_DIM, 256>(p, tile, 1);
  if (thread_index() == 0) store_global(p.turns + tile, 0);
}

// [anchor: sinks]
// A sink has the weight P = exp(sink - LSE) and no value. So its dP is 0, and its gradient is the
// sum of P (0 - D) over all rows of its head. One block per head adds in one order.
FA_KERNEL FA_LAUNCH_BOUNDS(256, 1)
inline void differentiate_sinks(const Params p) {
  const int head = block_index();
  const float sink_log2 = load_global(p.sinks + head) * LOG2_E;
  const int rows = p.q_tiles * BLOCK_Q;  // past the end LSE is inf, so P is 0
  float sum = 0.0f;
  for (int batch = 0; batch < p.batches; ++batch) {
    const int64_t first = tile_index(p, batch, head, 0) * BLOCK_Q;
    for (int row = thread_index(); row < rows; row += 256) {
      const float weight = exp2(sink_log2 - load_global(p.LSE_log2 + first + row));
      sum = fma(-weight, load_global(p.D + first + row), sum);
    }
  }
  for (int mask = WARP_SIZE / 2; mask > 0; mask /= 2) sum += shfl_xor(sum, mask);
  const uint32_t sums = dynamic_smem();
  if (lane_index() == 0) store_shared<float>(sums + warp_index() * 4u, sum);
  block_sync();  // all warps have stored their sums
  if (thread_index() > 0) return;
  float total = 0.0f;
  for (int warp = 0; warp < 256 / WARP_SIZE; ++warp) total += load_shared<float>(sums + warp * 4u);
  store_global(p.d_sinks + head, total);
}

inline void launch_sinks(const Params& p) {
  if (p.sinks == nullptr || p.d_sinks == nullptr) return;
  launch(differentiate_sinks, {.grid = p.heads, .block = 256, .smem_bytes = 256 / 8}, p);
}
// [/anchor: sinks]

// dQ = scale dQ_sum, rounded, in rows again, 16 rows per warp.
template <class T, int HEAD_DIM>
FA_KERNEL FA_LAUNCH_BOUNDS(BLOCK_Q / MMA_M * 32, 1)
void postprocess(const Params p) {
  constexpr int MMAS_D = HEAD_DIM / MMA_N;
  const int64_t tile = block_index();
  const int q_tile = block_index() % p.q_tiles, head = block_index() / p.q_tiles % p.heads;
  const int batch = block_index() / p.q_tiles / p.heads, mma_q = warp_index();
  const float* const from =
      p.dQ_sum + tile * (BLOCK_Q * HEAD_DIM) + (dQ_place<HEAD_DIM>(mma_q, 0, 0) + lane_index());
  float dQ_rmem[1][MMAS_D][4];
  for (int mma_d = 0; mma_d < MMAS_D; ++mma_d)
    for (int i = 0; i < 4; ++i)
      dQ_rmem[0][mma_d][i] = load_global(from + dQ_place<HEAD_DIM>(0, mma_d, i));
  const int row = mma_q * MMA_M;
  store_rows<T>(p.dQ, batch, head, q_tile * BLOCK_Q + row, p.len_q, p.dim,
                dynamic_smem() + row * HEAD_DIM * ELEMENT, dQ_rmem, p.scale);
}

template <int HEAD_DIM>
constexpr size_t postprocess_smem() {
  return BLOCK_Q * HEAD_DIM * ELEMENT;
}

}  // namespace FA_BACKEND::FA_CH10
