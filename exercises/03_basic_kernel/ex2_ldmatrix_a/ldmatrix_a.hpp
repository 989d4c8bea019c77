#pragma once
// Shared memory -> registers, as operand A of mma.m16n8k16.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex03 {

// A_smem is the byte address of a row-major matrix [16, MMAS_D * 16] of 2-byte elements. MMA_K is
// 16. A_rmem[i] receives columns 16 i to 16 i + 15. lane_index() is 0 to 31.
template <int MMAS_D>
FA_DEVICE void load_fragments_A(uint32_t (&A_rmem)[MMAS_D][4], uint32_t A_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_K * sizeof(bf16);
  exercise::todo("TODO(03.2): the address that this lane gives, and a loop of ldmatrix_x4");
}

}  // namespace FA_BACKEND::ex03
