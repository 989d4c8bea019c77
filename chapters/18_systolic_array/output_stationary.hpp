// In the output-stationary array, C stays, and A and B move.
//
//   cell (i, j) accumulates C[i][j]
//   A[i][k] enters row i from the left, i cycles late; B[k][j] enters column j from above, j late
//
// It takes the same M + K + N − 2 cycles. The results are then in the array and must be shifted
// out.
#pragma once

#include <algorithm>
#include <vector>

#include "weight_stationary.hpp"

namespace ch18 {

template <class Number>
class OutputStationary {
 public:
  struct Operand {
    bool here = false;
    Number value{};
  };
  struct Cell {
    Operand a, b;
    Number before{}, sum{};  // without this cycle's product, and with it
  };

  OutputStationary(int rows, int cols) : cells_(rows, cols) {}
  const Matrix<Cell>& cells() const { return cells_; }

  // Computes one cycle. Returns how many cells multiplied.
  // [anchor: output_tick]
  int tick(const std::vector<Operand>& left, const std::vector<Operand>& top) {
    int macs = 0;
    for (int i = cells_.rows - 1; i >= 0; --i) {
      for (int j = cells_.cols - 1; j >= 0; --j) {
        Cell& cell = cells_(i, j);
        cell.a = j > 0 ? cells_(i, j - 1).a : left[i];
        cell.b = i > 0 ? cells_(i - 1, j).b : top[j];
        cell.before = cell.sum;
        if (cell.a.here && cell.b.here) {
          cell.sum += cell.a.value * cell.b.value;
          ++macs;
        }
      }
    }
    return macs;
  }
  // [/anchor: output_tick]

 private:
  Matrix<Cell> cells_;
};

// C = A @ B with C at most as large as the array. Calls `watch(cycle, array)` after each cycle.
template <class Number, class Watch>
Streamed<Number> accumulate(const Matrix<Number>& A, const Matrix<Number>& B, std::uint32_t breaks,
                            Watch watch) {
  using Operand = typename OutputStationary<Number>::Operand;
  OutputStationary<Number> array(A.rows, B.cols);
  Streamed<Number> run;
  std::vector<Operand> left(A.rows), top(B.cols);
  const auto stagger = [&](int lane) { return breaks & kNoStagger ? 0 : lane; };
  const int last_entry = A.cols - 1 + std::max(stagger(A.rows - 1), stagger(B.cols - 1));
  for (int cycle = 0;; ++cycle) {
    if (breaks & kDrainForgotten && cycle > last_entry) break;
    for (int i = 0; i < A.rows; ++i) {
      const int k = cycle - stagger(i);
      left[i] = k >= 0 && k < A.cols ? Operand{true, A(i, k)} : Operand{};
    }
    for (int j = 0; j < B.cols; ++j) {
      const int k = cycle - stagger(j);
      top[j] = k >= 0 && k < B.rows ? Operand{true, B(k, j)} : Operand{};
    }
    const int macs = array.tick(left, top);
    if (macs == 0 && cycle > last_entry) break;
    run.macs += macs;
    if (macs > 0) run.cycles = cycle + 1;
    watch(cycle, array);
  }
  run.C.emplace_back(A.rows, B.cols);
  for (int i = 0; i < A.rows; ++i) {
    for (int j = 0; j < B.cols; ++j) run.C[0](i, j) = array.cells()(i, j).sum;
  }
  return run;
}

}  // namespace ch18
