#pragma once
// The copy engine stores O, while the warp goes on with the next tile of queries.

#include "chapters/16_maximum_on_demand/again.hpp"

namespace FA_BACKEND::ch21 {

// [anchor: store_async]
// O = O / l, rounded, into the rows of Q that this warp has finished with; then the copy engine
// stores them. Returns before it has. `panel_bytes` are between 64 columns and the next.
template <int MMAS_D, class Breaks>
FA_DEVICE void store_async(const TensorMap& O_map, int row, int head, int batch, uint32_t smem,
                           uint32_t panel_bytes, const float (&O_rmem)[1][MMAS_D][4],
                           const float (&m)[1][2], const float (&l)[1][2], Breaks breaks) {
  const float inverse[2] = {m[0][0] == NEG_INF && l[0][0] == 0.0f ? 0.0f : 1.0f / l[0][0],
                            m[0][1] == NEG_INF && l[0][1] == 0.0f ? 0.0f : 1.0f / l[0][1]};
  // Lane 8i + r passes the address of row r of matrix i: rows 0-7 and 8-15 of 8 columns, then of
  // the next 8. 16-byte chunk c of row r is chunk (c XOR r) mod 8 of its 128 bytes.
  const int matrix = lane_index() / 8, in_row = matrix % 2 * 8 + lane_index() % 8;
  FA_UNROLL
  for (int mma_d = 0; mma_d < MMAS_D; mma_d += 2) {
    uint32_t words[4];
    for (int i = 0; i < 4; ++i) {
      const float* o = &O_rmem[0][mma_d + i / 2][i % 2 * 2];
      words[i] = pack_bf16x2(o[0] * inverse[i % 2], o[1] * inverse[i % 2]);
    }
    const int chunk = (mma_d % 8 + matrix / 2) ^ in_row % 8;
    stmatrix_x4(smem + mma_d / 8 * panel_bytes + in_row * 128 + chunk * 16, words);
  }
  if (!breaks.has(fa::NO_STORE_FENCE)) fence_proxy_async();  // the copy engine sees the rows
  warp_sync();                                               // of all lanes
  if (lane_index() != 0) return;
  for (int panel = 0; panel < MMAS_D / 8; ++panel)
    tma_store_5d(O_map, 0, row, panel, head, batch, smem + panel * panel_bytes);
  tma_store_commit();
}
// [/anchor: store_async]

}  // namespace FA_BACKEND::ch21
