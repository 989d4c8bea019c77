#include "matrix.hpp"

#include <algorithm>
#include <random>

namespace ch18 {

constexpr std::size_t kLongestName = 400;

Named& Named::operator+=(const Named& term) {
  value += term.value;
  if (term.name.empty()) return *this;
  name = name.empty() ? term.name : name + " + " + term.name;
  if (name.size() > kLongestName) {  // keeps the first and the last term
    name = name.substr(0, name.find(" + ")) + " + … + " + term.name;
  }
  return *this;
}

std::string entry_name(const std::string& matrix, int row, int col, bool long_indices) {
  return matrix + std::to_string(row) + (long_indices ? "," : "") + std::to_string(col);
}

Matrix<Named> named(const Matrix<double>& numbers, const std::string& matrix) {
  Matrix<Named> result(numbers.rows, numbers.cols);
  const bool long_indices = std::max(numbers.rows, numbers.cols) > 10;
  for (int i = 0; i < numbers.rows; ++i) {
    for (int j = 0; j < numbers.cols; ++j) {
      result(i, j) = Named(numbers(i, j), entry_name(matrix, i, j, long_indices));
    }
  }
  return result;
}

Matrix<double> random_digits(int rows, int cols, std::uint32_t seed) {
  std::mt19937 random(seed);
  Matrix<double> digits(rows, cols);
  for (double& digit : digits.values) digit = 1 + static_cast<double>(random() % 9);
  return digits;
}

Matrix<double> plain_product(const Matrix<double>& a, const Matrix<double>& b) {
  Matrix<double> c(a.rows, b.cols);
  for (int i = 0; i < a.rows; ++i) {
    for (int k = 0; k < a.cols; ++k) {
      for (int j = 0; j < b.cols; ++j) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}

}  // namespace ch18
