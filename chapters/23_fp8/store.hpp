#pragma once
// The copy engine stores O, while the warp continues with the next tile of queries.

#include "chapters/23_fp8/params.hpp"

namespace FA_BACKEND::ch23 {

// Rounds O / l into this warp's rows at `smem`, panels of 64 columns, and starts their copy to O,
// as in chapter 21. LSE = m ln(2) + ln(l). A fully masked row gives 0 and -inf.
template <int MMAS_D>
FA_DEVICE void store_async(const Params& params, int head, int warp_row, uint32_t smem,
                           const float (&O_rmem)[1][MMAS_D][4], const float (&m)[2],
                           const float (&l)[2]) {
  constexpr uint32_t PANEL_BYTES = MMA_M * 128;
  const int rows = params.len_q - warp_row;
  float inverse[2];
  for (int half = 0; half < 2; ++half) {
    const int row = half * 8 + lane_index() / 4;
    const bool saw_nothing = m[half] == NEG_INF && l[half] == 0.0f;
    inverse[half] = saw_nothing ? 0.0f : 1.0f / l[half];
    if (params.LSE != nullptr && row < rows && lane_index() % 4 == 0)
      store_global(params.LSE + int64_t{head} * params.len_q + warp_row + row,
                   saw_nothing ? NEG_INF : m[half] * 0.69314718f + log(l[half]));
  }
  if (lane_index() == 0) tma_store_wait_read<0>();
  warp_sync();  // the copy engine has read the previous tile's O
  const int matrix = lane_index() / 8, in_row = matrix % 2 * 8 + lane_index() % 8;
  FA_UNROLL
  for (int mma_d = 0; mma_d < MMAS_D; mma_d += 2) {
    uint32_t words[4];
    for (int i = 0; i < 4; ++i) {
      const float* o = &O_rmem[0][mma_d + i / 2][i % 2 * 2];
      words[i] = pack_bf16x2(o[0] * inverse[i % 2], o[1] * inverse[i % 2]);
    }
    const int chunk = (mma_d % 8 + matrix / 2) ^ in_row % 8;
    stmatrix_x4(smem + mma_d / 8 * PANEL_BYTES + in_row * 128 + chunk * 16, words);
  }
  fence_proxy_async();  // the copy engine sees the rows
  warp_sync();          // all lanes have stored theirs
  if (lane_index() == 0 && rows > 0) {
    for (int panel = 0; panel < MMAS_D / 8; ++panel)
      tma_store_3d(params.O_map, panel * 64, warp_row, head, smem + panel * PANEL_BYTES);
    tma_store_commit();
  }
}

}  // namespace FA_BACKEND::ch23
