// Matrices of both arrays. An entry is a number, or one that remembers how it was computed.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace ch18 {

template <class Number>
struct Matrix {
  int rows = 0, cols = 0;
  std::vector<Number> values;  // [rows, cols]

  Matrix() = default;
  Matrix(int rows, int cols, const Number& value = Number{})
      : rows(rows), cols(cols), values(static_cast<std::size_t>(rows) * cols, value) {}
  Number& operator()(int row, int col) {
    return values[static_cast<std::size_t>(row) * cols + col];
  }
  const Number& operator()(int row, int col) const {
    return values[static_cast<std::size_t>(row) * cols + col];
  }

  // Rows [row, row + height), columns [col, col + width).
  Matrix block(int row, int col, int height, int width) const {
    Matrix part(height, width);
    for (int i = 0; i < height; ++i) {
      for (int j = 0; j < width; ++j) part(i, j) = (*this)(row + i, col + j);
    }
    return part;
  }
};

// A number with its formula, such as a00·b00 + a01·b10. The arrays are templates, so the same code
// processes formulas, and a trace shows which elements were multiplied.
struct Named {
  double value = 0;
  std::string name;  // empty if nothing has been added yet

  Named() = default;
  Named(double value, std::string name = "") : value(value), name(std::move(name)) {}
  friend Named operator*(const Named& a, const Named& b) {
    return {a.value * b.value, a.name + "·" + b.name};
  }
  Named& operator+=(const Named& term);
};

// Returns a00, or a3,12 if an index has two digits.
std::string entry_name(const std::string& matrix, int row, int col, bool long_indices);
Matrix<Named> named(const Matrix<double>& numbers, const std::string& matrix);

// Returns the initial value of a result, which is NaN, so that an unwritten one is visible.
template <class Number>
Number never_written() {
  return Number(std::numeric_limits<double>::quiet_NaN());
}

// Returns random integers from 1 to 9, the same on every machine. Products and sums are exact.
Matrix<double> random_digits(int rows, int cols, std::uint32_t seed);

// Returns the plain product, which runs are compared with.
Matrix<double> plain_product(const Matrix<double>& a, const Matrix<double>& b);

}  // namespace ch18
