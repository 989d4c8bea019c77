#pragma once
// C of exercise 18.2, filled in result by result.

#include <cmath>
#include <vector>

struct Results {
  int rows, cols;
  std::vector<double> values;  // NaN until put
  int outside = 0;             // number of calls of put with a place that C does not have
  int first_outside[2] = {};

  Results(int rows, int cols)
      : rows(rows), cols(cols), values(static_cast<size_t>(rows) * cols, std::nan("")) {}

  void put(int row, int col, double value) {
    if (row < 0 || row >= rows || col < 0 || col >= cols) {
      if (outside++ == 0) first_outside[0] = row, first_outside[1] = col;
      return;
    }
    values[static_cast<size_t>(row) * cols + col] = value;
  }
};
