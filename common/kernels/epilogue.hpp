#pragma once
// The epilogue of the kernel, whose steps are to divide by the row sums, round, store.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND {

// [anchor: epilogue]
// O = O / l, rounded to bf16. A lane stores its two adjacent elements of each row as one 4-byte
// word, so a quad stores 16 contiguous bytes, half of a 32-byte sector. Rows at `rows` and above
// are not stored.
template <int MMAS_Q, int MMAS_D>
FA_DEVICE void store_output(bf16* O_gmem,  // this warp's rows [WARP_Q, HEAD_DIM]
                            const float (&O_rmem)[MMAS_Q][MMAS_D][4], const float (&l)[MMAS_Q][2],
                            int rows) {
  constexpr int HEAD_DIM = MMAS_D * MMA_N;
  FA_UNROLL
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const int row = mma_q * MMA_M + half * 8 + lane_index() / 4;
      const float inverse = 1.0f / l[mma_q][half];
      for (int mma_d = 0; mma_d < MMAS_D; ++mma_d) {
        const int col = mma_d * MMA_N + lane_index() % 4 * 2;
        const float* c = &O_rmem[mma_q][mma_d][half * 2];
        if (row < rows) {
          store_global(reinterpret_cast<uint32_t*>(O_gmem + row * HEAD_DIM + col),
                       pack_bf16x2(c[0] * inverse, c[1] * inverse));
        }
      }
    }
}
// [/anchor: epilogue]

}  // namespace FA_BACKEND
