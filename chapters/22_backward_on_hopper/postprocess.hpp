#pragma once
// Computes dQ from its sum.

#include "schedule.hpp"

namespace FA_BACKEND::ch22 {

struct alignas(16) Float4 {
  float x, y, z, w;
};

// dQ = scale dQ_sum, rounded, in rows again, 16 rows per warp. The sum of a tile is stored in the
// order of the accumulators that computed it, in two halves, [8 mma tiles][128 threads][4].
template <class T, int HEAD_DIM, bool PACKED>
FA_KERNEL FA_LAUNCH_BOUNDS(2 * TILE_ELEMENTS / HEAD_DIM, 1)
void convert_dQ(const Params whole) {
  constexpr int BLOCK_Q = TILE_ELEMENTS / HEAD_DIM, MMAS_D = HEAD_DIM / MMA_N;
  const int64_t tile = block_index();
  int q_tile = block_index() % whole.q_tiles, len_q = whole.len_q;
  const int head = block_index() / whole.q_tiles % whole.heads;
  const int batch = block_index() / whole.q_tiles / whole.heads, warp = warp_index();
  ch10::Tensor dQ = whole.dQ;
  if constexpr (PACKED) {
    const int n = sequence_of<BLOCK_Q>(whole.q_starts, whole.sequences, q_tile);
    const int q_start = load_global(whole.q_starts + n);
    len_q = load_global(whole.q_starts + n + 1) - q_start;
    q_tile -= q_start / BLOCK_Q + n;
    dQ.data += int64_t{q_start} * dQ.row;
    if (q_tile * BLOCK_Q >= len_q) return;
  }
  const Float4* const from = reinterpret_cast<const Float4*>(whole.dQ_sum + tile * TILE_ELEMENTS);
  float dQ_rmem[1][MMAS_D][4];
  for (int mma_d = 0; mma_d < MMAS_D; ++mma_d) {
    // The halves are queries at head size 64 and columns at 128.
    const int half = HEAD_DIM == 64 ? warp / 4 : mma_d / 8;
    const Float4 c = load_global(from + (half * 8 + mma_d % 8) * 128 + thread_index() % 128);
    dQ_rmem[0][mma_d][0] = c.x;
    dQ_rmem[0][mma_d][1] = c.y;
    dQ_rmem[0][mma_d][2] = c.z;
    dQ_rmem[0][mma_d][3] = c.w;
  }
  const int row = warp * MMA_M;
  ch10::store_rows<T>(dQ, batch, head, q_tile * BLOCK_Q + row, len_q, whole.dim,
                      dynamic_smem() + row * HEAD_DIM * ELEMENT, dQ_rmem, whole.scale);
}

}  // namespace FA_BACKEND::ch22
