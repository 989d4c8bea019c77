#pragma once
// The results of the splits become one.

#include <cmath>
#include <limits>

#include "exercises/support/todo.hpp"

constexpr float INFINITE = std::numeric_limits<float>::infinity();

// One row of O from the results of its splits. O_splits: [splits, dim], LSE_splits: [splits]. A
// split without a key has O 0 and LSE -inf. Writes O [dim] and returns LSE, of all keys of all
// splits: 0 and -inf if there is none.
inline float combine(int splits, int dim, const float* O_splits, const float* LSE_splits,
                     float* O) {
  exercise::todo("TODO(11.1): O and LSE of all splits together");
}
