#pragma once
// The weights of a row, with one multiply-add before each exponential.

#include <limits>
#include <vector>

#include "exercises/support/counted.hpp"
#include "exercises/support/todo.hpp"

// A float that counts operations. It has + - * / and comparisons, and fma(a, b, c), exp2(x) and
// fabs(x), which are called without std::. Write Float or auto for your variables, too.
using exercise::Float;

constexpr float LOG2_E = 1.44269504f;
constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

// Returns the weights e^(scale (s_j - m)) of a row of scores. A score of a hidden key is -inf, and
// m is -inf if all are. No weight is above 2^8. scale is positive.
inline std::vector<Float> weights(const std::vector<Float>& s, Float m, Float scale) {
  exercise::todo("TODO(08.1): the folded factor, and for each score one fma and one exp2");
}
