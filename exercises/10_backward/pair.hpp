#pragma once
// A tile of queries and a tile of keys in fast memory, for 10.3.

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Rows of numbers, M(i, j), or with one column M[i]. Throws if there is no such number.
class Matrix {
 public:
  Matrix(std::string name, int rows, int cols)
      : name_(std::move(name)), rows_(rows), cols_(cols), data_(rows * cols) {}

  float& operator()(int i, int j) { return data_[index(i, j)]; }
  float operator()(int i, int j) const { return data_[index(i, j)]; }
  float operator[](int i) const { return (*this)(i, 0); }
  std::vector<float>& data() { return data_; }
  const std::vector<float>& data() const { return data_; }

 private:
  int index(int i, int j) const {
    if (i >= 0 && i < rows_ && j >= 0 && j < cols_) return i * cols_ + j;
    throw std::out_of_range(name_ + "(" + std::to_string(i) + ", " + std::to_string(j) + "): " +
                            name_ + " is " + std::to_string(rows_) + " x " + std::to_string(cols_));
  }
  std::string name_;
  int rows_, cols_;
  std::vector<float> data_;
};

struct Pair {
  int queries, keys, dim;
  Matrix Q, dO;   // [queries, dim]
  Matrix K;       // [keys, dim]
  Matrix S;       // [queries, keys]  Q @ K.T, not multiplied by scale, nothing hidden
  Matrix dP;      // [queries, keys]  dO @ V.T
  Matrix LSE, D;  // [queries]        of a query that sees no key at all -inf and 0
  float scale;
  Matrix mask;  // [queries, keys]  1: visible, 0: hidden

  bool sees(int i, int j) const { return mask(i, j) != 0; }
};

// Sums over pairs of tiles, which contain the parts of the earlier pairs.
struct Gradients {
  Matrix dQ;      // [queries, dim]
  Matrix dK, dV;  // [keys, dim]
};
