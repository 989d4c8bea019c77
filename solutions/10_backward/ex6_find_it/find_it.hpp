#pragma once
// The element is copied, because x + h - 2 h + h is rounded three times and may differ from x. The
// test is !(error <= worst), because this is also true for a NaN. The first NaN ends the search,
// because no later element can be farther off.

#include <cmath>

#include "exercises/10_backward/program.hpp"

constexpr double STEP = 1e-4;       // h
constexpr double TOLERANCE = 1e-6;  // largest error of a right gradient

struct Finding {
  int tensor = -1, element = -1;  // -1 if nothing is wrong
};

// The element whose gradient is farthest from its central difference, if that is farther than
// TOLERANCE. If some are NaN, the first of them. `program` is afterwards as it was before.
inline Finding find_wrong(Program& program) {
  Finding found;
  double worst = TOLERANCE;
  for (size_t tensor = 0; tensor < program.tensors.size(); ++tensor) {
    for (size_t i = 0; i < program.tensors[tensor].size(); ++i) {
      double& x = program.tensors[tensor][i];
      const double copy = x;
      x = copy + STEP;
      const double above = program.loss(program.tensors);
      x = copy - STEP;
      const double below = program.loss(program.tensors);
      x = copy;
      const double error = std::abs(program.gradients[tensor][i] - (above - below) / (2 * STEP));
      if (!(error <= worst)) {
        found = {static_cast<int>(tensor), static_cast<int>(i)};
        worst = error;
        if (std::isnan(error)) return found;
      }
    }
  }
  return found;
}
