#pragma once
// S += Q @ K.T with ldmatrix.x4

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex06 {

// K_smem is row-major [MMAS_KV * 8 keys, MMAS_D * 16], 2-byte elements, not swizzled. Both counts
// are even. Q_rmem[i] is operand A, columns 16 i to 16 i + 15. S_rmem[j] is for keys 8 j to 8 j +
// 7.
template <int MMAS_KV, int MMAS_D>
FA_DEVICE void multiply_query_key(float (&S_rmem)[MMAS_KV][4], const uint32_t (&Q_rmem)[MMAS_D][4],
                                  uint32_t K_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_K * sizeof(bf16);
  exercise::todo("TODO(06.1): this lane's address; loops of one ldmatrix_x4 and two mma_m16n8k16");
}

}  // namespace FA_BACKEND::ex06
