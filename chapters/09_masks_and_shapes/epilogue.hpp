#pragma once
// The epilogue of the kernel, whose steps are to divide by the row sums, round, store O and the
// log-sum-exp.

#include "chapters/09_masks_and_shapes/params.hpp"

namespace FA_BACKEND::ch09 {

// [anchor: epilogue]
// O = O / l, rounded, and LSE = ln(sum of exp(scale S)) = scale m + ln(l). A fully masked row has m
// = -inf and l = 0, so its O is 0 and its LSE is -inf. (l = 0 alone would also hide a wrong 0/0,
// and m = -inf alone would hide scores that are all NaN, which max drops.)
template <class T, int MMAS_Q, int MMAS_D>
FA_DEVICE void store_output(char* O_gmem,     // this warp's rows, `stride` bytes apart
                            float* LSE_gmem,  // this warp's rows, or null if not wanted
                            const float (&O_rmem)[MMAS_Q][MMAS_D][4], const float (&m)[MMAS_Q][2],
                            const float (&l)[MMAS_Q][2], float scale, int rows, int cols,
                            uint32_t stride) {
  FA_UNROLL
  for (int mma_q = 0; mma_q < MMAS_Q; ++mma_q)
    for (int half = 0; half < 2; ++half) {
      const int row = mma_q * MMA_M + half * 8 + lane_index() / 4;
      if (row >= rows) continue;
      const bool saw_nothing = m[mma_q][half] == NEG_INF && l[mma_q][half] == 0.0f;
      const float inverse = saw_nothing ? 0.0f : 1.0f / l[mma_q][half];
      for (int mma_d = 0; mma_d < MMAS_D; ++mma_d) {
        const int col = mma_d * MMA_N + lane_index() % 4 * 2;
        const float* c = &O_rmem[mma_q][mma_d][half * 2];
        if (col < cols) {
          store_global(
              reinterpret_cast<uint32_t*>(O_gmem + int64_t{row} * stride + col * sizeof(bf16)),
              pack<T>(c[0] * inverse, c[1] * inverse));
        }
      }
      if (LSE_gmem != nullptr && lane_index() % 4 == 0) {
        store_global(LSE_gmem + row,
                     saw_nothing ? NEG_INF : m[mma_q][half] * scale + log(l[mma_q][half]));
      }
    }
}
// [/anchor: epilogue]

}  // namespace FA_BACKEND::ch09
