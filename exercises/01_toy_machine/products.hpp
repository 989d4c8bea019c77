#pragma once
// 2×2 products for the tests of this topic.

#include <cmath>
#include <string>

#include "exercises/support/trace.hpp"

namespace exercise {

inline const Inputs kInFile = {{"a", {1, 2, 3, 4}}, {"b", {5, 6, 7, 8}}};
inline const Inputs kOther = {{"a", {2, -3, 5, 7}}, {"b", {-11, 4, 0.5f, 13}}};

// c_ij = sum over the k from `first` on of a_ik · b_kj
inline Numbers product(const Inputs& inputs, int first = 0) {
  const std::vector<float>&a = inputs.at("a"), &b = inputs.at("b");
  Numbers c(4);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = first; k < 2; ++k) c[2 * i + j] += a[2 * i + k] * b[2 * k + j];
    }
  }
  return c;
}

inline bool close(double a, double b) { return std::abs(a - b) <= 1e-5 * (1 + std::abs(b)); }

// Is `value` c_ij with one factor taken from another input? That happens when a register holds
// something else than the program's author thinks.
inline bool one_factor_is_another(const Inputs& inputs, int i, int j, double value) {
  const std::vector<float>&a = inputs.at("a"), &b = inputs.at("b");
  const double right[4] = {a[2 * i], b[j], a[2 * i + 1], b[2 + j]};
  for (int position = 0; position < 4; ++position) {
    for (int other = 0; other < 8; ++other) {
      double factor[4] = {right[0], right[1], right[2], right[3]};
      factor[position] = other < 4 ? a[other] : b[other - 4];
      if (close(value, factor[0] * factor[1] + factor[2] * factor[3])) return true;
    }
  }
  return false;
}

// All four elements, one check each; a wrong one is suspected of a wrong operand, named `mistake`.
inline void check_elements(const Inputs& inputs, const std::string& mistake,
                           int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  const Numbers c = answer().output(inputs), expected = product(inputs);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const double got = c[2 * i + j];
      const std::string name = "c" + std::to_string(i) + std::to_string(j);
      check(close(got, expected[2 * i + j]),
            name + ": expected " + text(expected[2 * i + j]) + ", got " + text(got),
            {{mistake, one_factor_is_another(inputs, i, j, got),
              name + " has a wrong factor: a register held something else than you thought at one "
                     "of its MACs; run it with --trace and read the row"}},
            line, file);
    }
  }
}

}  // namespace exercise
