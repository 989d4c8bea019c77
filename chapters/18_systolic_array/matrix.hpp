// What both arrays work on: matrices of numbers, or of numbers that remember where they come from.
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

// A number with its history: a00·b00 + a01·b10. The arrays are templates, so the same code moves
// formulas, and a trace says whose numbers met.
struct Named {
  double value = 0;
  std::string name;  // empty: nothing has been added yet

  Named() = default;
  Named(double value, std::string name = "") : value(value), name(std::move(name)) {}
  friend Named operator*(const Named& a, const Named& b) {
    return {a.value * b.value, a.name + "·" + b.name};
  }
  Named& operator+=(const Named& term);
};

// a00 or, where an index has two digits, a3,12.
std::string entry_name(const std::string& matrix, int row, int col, bool long_indices);
Matrix<Named> named(const Matrix<double>& numbers, const std::string& matrix);

// What a result is before anything was written to it: a NaN, so that a missing one shows.
template <class Number>
Number never_written() {
  return Number(std::numeric_limits<double>::quiet_NaN());
}

// Small whole numbers, 1 to 9, the same on every machine: products and sums are exact.
Matrix<double> random_digits(int rows, int cols, std::uint32_t seed);

// The plain product that a run is held against.
Matrix<double> plain_product(const Matrix<double>& a, const Matrix<double>& b);

}  // namespace ch18
