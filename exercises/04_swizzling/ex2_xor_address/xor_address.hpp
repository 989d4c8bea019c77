#pragma once
// Shared memory, swizzled -> registers, as operand A of mma.m16n8k16.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex04 {

// A_smem is the address of a tile [16, 128] of 2-byte elements. A_rmem[i] receives columns 16 i to
// 16 i +
// 15. swizzle(offset) returns the offset from A_smem of the chunk at `offset` of the row-major
//     tile.
template <class Swizzle>
FA_DEVICE void load_fragments_A(uint32_t (&A_rmem)[8][4], uint32_t A_smem, Swizzle swizzle) {
  constexpr uint32_t ROW_BYTES = 256;
  exercise::todo("TODO(04.2): one swizzle for this lane, then a loop of ldmatrix_x4");
}

}  // namespace FA_BACKEND::ex04
