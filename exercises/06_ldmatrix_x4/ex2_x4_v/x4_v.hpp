#pragma once
// O += P @ V with ldmatrix.x4

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex06 {

// V_smem is row-major [MMAS_KV * 16 keys, MMAS_D * 8], 2-byte elements, not swizzled. MMAS_D is
// even. P_rmem[j] is operand A, keys 16 j to 16 j + 15. O_rmem[i] is for columns 8 i to 8 i + 7.
template <int MMAS_D, int MMAS_KV>
FA_DEVICE void multiply_weights_value(float (&O_rmem)[MMAS_D][4],
                                      const uint32_t (&P_rmem)[MMAS_KV][4], uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * sizeof(bf16);
  exercise::todo("TODO(06.2): this lane's address; loops of one ldmatrix and two mma_m16n8k16");
}

}  // namespace FA_BACKEND::ex06
