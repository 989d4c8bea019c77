#pragma once
// Checks whether a computed gradient is right.

#include <cmath>
#include <functional>
#include <vector>

#include "exercises/support/todo.hpp"

using Function = std::function<double(const std::vector<double>&)>;

// dx is as long as x. Returns true if every component of dx is that of the gradient of f at x. x is
// the same afterwards.
inline bool gradient_is_right(const Function& f, std::vector<double>& x,
                              const std::vector<double>& dx) {
  exercise::todo("TODO(20.2): each component of dx against a central difference of f");
}
