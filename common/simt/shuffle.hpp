#pragma once
// A random permutation that is the same with every standard library, unlike that of std::shuffle.

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

namespace fa::simt {

/// Permutes `values` (Fisher and Yates). `% i` favours some orders by less than 2^-50.
template <class T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[static_cast<size_t>(random() % i)]);
  }
}

}  // namespace fa::simt
