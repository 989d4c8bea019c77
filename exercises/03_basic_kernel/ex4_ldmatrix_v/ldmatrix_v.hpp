#pragma once
// 16 keys from shared memory -> registers, as operand B of O += P @ V

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex03 {

// V_smem is the byte address of the first of 16 keys. Each is a row of MMAS_D * 8 elements of 2
// bytes. V_rmem[i] receives columns 8 i to 8 i + 7. MMA_N is 8.
template <int MMAS_D>
FA_DEVICE void load_fragments_V(uint32_t (&V_rmem)[MMAS_D][2], uint32_t V_smem) {
  constexpr uint32_t ROW_BYTES = MMAS_D * MMA_N * sizeof(bf16);
  exercise::todo("TODO(03.4): the address that this lane gives, and a loop of ldmatrix");
}

}  // namespace FA_BACKEND::ex03
