#pragma once
// How many blocks share the keys of a sequence.

#include <algorithm>
#include <cmath>
#include <vector>

#include "exercises/support/todo.hpp"

// Into how many splits to cut the keys of a sequence. `blocks`: without splitting. `tiles`: of
// keys. All three are at least 1.
inline int how_many_splits(int blocks, int multiprocessors, int tiles) {
  exercise::todo("TODO(11.2): the smallest number of splits that is nearly as good as the best");
}
