#pragma once
// The maximum of each row of S, in registers.

#include <limits>

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex03 {

// S_rmem is this lane's part of S [16, MMAS_KV * 8], one 16x8 tile after the other. result[0] is
// for row lane/4, result[1] for row lane/4 + 8. max(a, b) takes two floats.
template <int MMAS_KV>
FA_DEVICE void row_max(float (&result)[2], const float (&S_rmem)[MMAS_KV][4]) {
  exercise::todo("TODO(03.5): for each half: the maximum of this lane's part, then two shfl_xor");
}

}  // namespace FA_BACKEND::ex03
