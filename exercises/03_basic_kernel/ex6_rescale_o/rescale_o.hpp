#pragma once
// m' = max(m, rowmax S),   l *= exp(m - m'),   O *= exp(m - m')

#include <limits>

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex03 {

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

// row_max is the maximum of the next tile, for this lane's two rows, or -inf where no key is
// visible. m, l and O_rmem [16, MMAS_D * 8] belong to the tiles before. max and exp take floats.
template <int MMAS_D>
FA_DEVICE void update_max(float (&m)[2], float (&l)[2], float (&O_rmem)[MMAS_D][4],
                          const float (&row_max)[2]) {
  exercise::todo("TODO(03.6): for each half: the new m, the factor, then l and O times the factor");
}

}  // namespace FA_BACKEND::ex03
