#pragma once
// A gradient check that says where a gradient is wrong.

#include <cmath>

#include "exercises/10_backward/program.hpp"
#include "exercises/support/todo.hpp"

constexpr double STEP = 1e-4;       // h
constexpr double TOLERANCE = 1e-6;  // largest error of a right gradient

struct Finding {
  int tensor = -1, element = -1;  // -1 if nothing is wrong
};

// The element whose gradient is farthest from its central difference, if that is farther than
// TOLERANCE. If some are NaN, the first of them. `program` is afterwards as it was before.
inline Finding find_wrong(Program& program) {
  exercise::todo("TODO(10.6): the gradient that is farthest from its central difference");
}
