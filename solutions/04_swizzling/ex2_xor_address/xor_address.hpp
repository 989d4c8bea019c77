#pragma once
// Lane and column share no bit, so adding them is XORing them. The term depends on the row, and the
// column does not change the row. Therefore swizzle(lane + column) = swizzle(lane) ^ column. With
// +, the column would carry into the bits that the term has set, because (a ^ term) + b is not (a +
// b) ^ term.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex04 {

template <class Swizzle>
FA_DEVICE void load_fragments_A(uint32_t (&A_rmem)[8][4], uint32_t A_smem, Swizzle swizzle) {
  constexpr uint32_t ROW_BYTES = 256;
  const uint32_t lane_offset = swizzle(lane_index() % 16 * ROW_BYTES + lane_index() / 16 * 16);
  for (uint32_t mma_d = 0; mma_d < 8; ++mma_d)
    ldmatrix_x4(A_rmem[mma_d], A_smem + (lane_offset ^ mma_d * 32));
}

}  // namespace FA_BACKEND::ex04
