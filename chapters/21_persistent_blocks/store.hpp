#pragma once
// The copy engine stores O, while the warp continues with the next tile of queries.

#include "chapters/16_maximum_on_demand/again.hpp"
#include "chapters/21_persistent_blocks/params.hpp"

namespace FA_BACKEND::ch21 {

// [anchor: store_async]
// Writes O / l, rounded, over the rows of Q that this warp has finished with, and starts their copy
// to O. Returns before the copy engine has read them. LSE = scale m + ln(l). The next 64 columns
// are `panel_bytes` further on.
template <int MMAS_D, class Breaks>
FA_DEVICE void store_async(const Params& params, const Work& work, int warp_row, uint32_t smem,
                           uint32_t panel_bytes, const float (&O_rmem)[1][MMAS_D][4],
                           const float (&m)[1][2], const float (&l)[1][2], Breaks breaks) {
  const int rows = work.len_q - warp_row, first = work.q_start + warp_row;
  float inverse[2];
  for (int half = 0; half < 2; ++half) {
    const int row = half * 8 + lane_index() / 4;
    const bool saw_nothing = m[0][half] == NEG_INF && l[0][half] == 0.0f;
    inverse[half] = saw_nothing ? 0.0f : 1.0f / l[0][half];
    if (params.LSE != nullptr && row < rows && lane_index() % 4 == 0) {
      float* LSE = params.LSE + (int64_t{work.batch} * params.heads + work.head) * params.len_q;
      store_global(LSE + first + row,
                   saw_nothing ? NEG_INF : m[0][half] * params.scale + log(l[0][half]));
    }
  }
  // Lane 8i + r passes the address of row r of matrix i, for rows 0-7 and 8-15 of 8 columns, then
  // of the next 8. 16-byte chunk c of row r is chunk (c XOR r) mod 8 of its 128 bytes.
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
  warp_sync();                                               // all lanes have stored theirs
  if (params.q_starts == nullptr || rows >= 16) {  // rows past the tensor's last are not stored
    if (lane_index() == 0 && rows > 0) {
      for (int panel = 0; panel < MMAS_D / 8; ++panel)
        tma_store_5d(params.O_map, 0, first, panel, work.head, work.batch,
                     smem + panel * panel_bytes);
      tma_store_commit();
    }
    return;
  }
  // A box would reach into the next sequence, so the warp copies its rows, a chunk per lane.
  FA_NO_UNROLL
  for (int i = lane_index(); i < rows * MMAS_D; i += WARP_SIZE) {
    const int row = i / MMAS_D, chunk = i % MMAS_D;
    const uint32_t from = smem + chunk / 8 * panel_bytes + row * 128 + (chunk % 8 ^ row % 8) * 16;
    char* O = params.O.at(work.batch, work.head, first + row);
    store_global(reinterpret_cast<FourInts*>(O) + chunk, load_shared<FourInts>(from));
  }
}
// [/anchor: store_async]

}  // namespace FA_BACKEND::ch21
