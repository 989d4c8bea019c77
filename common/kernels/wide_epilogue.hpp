#pragma once
// The epilogue of the kernels of chapters 16 and 17, whose steps are to divide by the row sums,
// round, store O and the log-sum-exp.

#include "common/kernels/softmax.hpp"

namespace FA_BACKEND {

struct alignas(16) FourWords {
  uint32_t word[4];
};

// Transposes words within a quad. Lane q has word q of four 16-byte chunks and receives all four
// words of chunk q. Lanes exchange words twice, first with the neighbour, then with the lane two
// further.
FA_DEVICE FourWords transpose(FourWords chunks) {
  for (int distance = 1; distance <= 2; distance *= 2) {
    const bool upper = (lane_index() & distance) != 0;
    for (int i = 0; i < 4; ++i) {
      if (i & distance) continue;
      uint32_t& low = chunks.word[i];
      uint32_t& high = chunks.word[i + distance];
      const uint32_t received = shfl_xor(upper ? low : high, distance);
      (upper ? low : high) = received;
    }
  }
  return chunks;
}

// O = O / l, rounded, and LSE = scale m + ln(l). A fully masked row gives 0 and -inf. A lane has
// two adjacent elements of each 8 columns, 4 bytes. The quad exchanges them, so that each lane
// stores 16 bytes and a quad stores 64 contiguous bytes.
template <int MMAS_D>
FA_DEVICE void store_output(char* O_gmem,     // this warp's rows, `stride` bytes apart
                            float* LSE_gmem,  // this warp's rows, or null if LSE is not wanted
                            const float (&O_rmem)[1][MMAS_D][4], const float (&m)[1][2],
                            const float (&l)[1][2], float scale, int rows, int64_t stride) {
  static_assert(MMAS_D % 4 == 0, "a quad exchanges four words at a time");
  for (int half = 0; half < 2; ++half) {
    const int row = half * 8 + lane_index() / 4;
    const bool saw_nothing = m[0][half] == NEG_INF && l[0][half] == 0.0f;
    const float inverse = saw_nothing ? 0.0f : 1.0f / l[0][half];
    for (int mma_d = 0; mma_d < MMAS_D; mma_d += 4) {
      FourWords mine;
      for (int i = 0; i < 4; ++i) {
        const float* c = &O_rmem[0][mma_d + i][half * 2];
        mine.word[i] = pack_bf16x2(c[0] * inverse, c[1] * inverse);
      }
      const FourWords chunk = transpose(mine);
      if (row < rows) {
        store_global(reinterpret_cast<FourWords*>(O_gmem + row * stride +
                                                  (mma_d + lane_index() % 4) * sizeof chunk),
                     chunk);
      }
    }
    if (LSE_gmem != nullptr && row < rows && lane_index() % 4 == 0) {
      store_global(LSE_gmem + row, saw_nothing ? NEG_INF : m[0][half] * scale + log(l[0][half]));
    }
  }
}

}  // namespace FA_BACKEND
