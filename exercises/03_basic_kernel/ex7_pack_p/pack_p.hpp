#pragma once
// P, as mma leaves it -> P, as the next mma wants it.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex03 {

// P is this lane's part of P [16, MMAS_KV * 8], one 16x8 tile after the other. P_rmem is the same
// as operand A, one 16x16 tile after the other.
template <int MMAS_KV>
FA_DEVICE void pack_P(uint32_t (&P_rmem)[MMAS_KV / 2][4], const float (&P)[MMAS_KV][4]) {
  exercise::todo("TODO(03.7): two floats into each register with pack_bf16x2");
}

}  // namespace FA_BACKEND::ex03
