#pragma once
// Shared memory -> registers, as operand A of mma.m16n8k16.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex03 {

// A_smem: byte address of a row-major matrix [16, MMAS_D * 16] of 2-byte elements. MMA_K is 16.
// A_rmem[i]: columns 16 i to 16 i + 15. lane_index() is 0 to 31.
template <int MMAS_D>
FA_DEVICE void load_fragments_A(uint32_t (&A_rmem)[MMAS_D][4], uint32_t A_smem) {
  constexpr uint32_t TILE_ROW = MMA_K * sizeof(bf16);
  const uint32_t mine = A_smem + lane_index() % 16 * TILE_ROW + lane_index() / 16 * 16;
  for (int i = 0; i < MMAS_D; ++i) {
    ldmatrix_x4(A_rmem[i], mine + i * MMA_M * TILE_ROW);
  }
}

}  // namespace FA_BACKEND::ex03
