#pragma once
// 8 keys from shared memory -> registers, as operand B of S = Q @ K.T

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex03 {

// K_smem is the byte address of the first of 8 keys. Each is a row of MMAS_D * 16 elements of 2
// bytes, and more keys follow. K_rmem[i] receives d = 16 i to 16 i + 15. MMA_K is 16.
template <int MMAS_D>
FA_DEVICE void load_fragments_K(uint32_t (&K_rmem)[MMAS_D][2], uint32_t K_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_K * sizeof(bf16);
  exercise::todo("TODO(03.3): the address that this lane gives, and a loop of ldmatrix");
}

}  // namespace FA_BACKEND::ex03
