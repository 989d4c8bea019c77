// In the weight-stationary array, B stays, and A and the sums move.
//
//   cell (k, n) keeps the weight B[k][n]
//   A[m][k] enters row k from the left, k cycles after A[m][0] entered row 0, and moves right
//   sums enter above as 0 and move down; C[m][n] leaves below row K − 1
//
// 2 × 3 times 3 × 2 takes 5 cycles = M + K + N − 2:  ch18_systolic_array matmul --trace
#pragma once

#include <algorithm>
#include <vector>

#include "breaks.hpp"
#include "matrix.hpp"

namespace ch18 {

// Input of a row from the left in one cycle, either nothing or an activation.
template <class Number>
struct Arrival {
  bool here = false;
  bool swaps = false;  // the first of its product, which makes the cell use its next weight
  int product = 0;
  int cols = 0;  // columns that it passes, the N of its product
  Number value{};
};

// Input of a column from above, a weight for the top cell. `rows` cells shift their weights down.
template <class Number>
struct Shift {
  const Number* weight = nullptr;
  int rows = 0;
};

template <class Number>
class WeightStationary {
 public:
  struct Cell {
    Number weight{}, next_weight{};
    Arrival<Number> activation;
    Number above{}, sum{};  // the sum from above, and the sum passed down
  };

  WeightStationary(int rows, int cols) : cells_(rows, cols) {}
  const Matrix<Cell>& cells() const { return cells_; }

  // Computes one cycle. Returns how many cells multiplied.
  // [anchor: tick]
  // Goes from the last cell to the first, so that each reads the old registers of its neighbours.
  int tick(const std::vector<Arrival<Number>>& left, const std::vector<Shift<Number>>& top) {
    int macs = 0;
    for (int k = cells_.rows - 1; k >= 0; --k) {
      for (int n = cells_.cols - 1; n >= 0; --n) {
        Cell& cell = cells_(k, n);
        cell.activation = n > 0 ? cells_(k, n - 1).activation : left[k];
        cell.above = k > 0 ? cells_(k - 1, n).sum : Number{};
        if (n >= cell.activation.cols) cell.activation = {};
        if (cell.activation.swaps) cell.weight = cell.next_weight;
        if (k < top[n].rows) {
          cell.next_weight = k > 0 ? cells_(k - 1, n).next_weight : *top[n].weight;
        }
        cell.sum = cell.above;
        if (cell.activation.here) {
          cell.sum += cell.activation.value * cell.weight;
          ++macs;
        }
      }
    }
    return macs;
  }
  // [/anchor: tick]

  // Loads the weights of the first product before cycle 0.
  void preload(const Matrix<Number>& B) {
    for (int k = 0; k < B.rows; ++k) {
      for (int n = 0; n < B.cols; ++n) cells_(k, n).next_weight = B(k, n);
    }
  }
  void swap_all_weights() {
    for (Cell& cell : cells_.values) cell.weight = cell.next_weight;
  }

 private:
  Matrix<Cell> cells_;
};

// C = A @ B with B at most as large as the array.
template <class Number>
struct Product {
  Matrix<Number> A;  // [M, K]
  Matrix<Number> B;  // [K, N]
};

template <class Number>
struct Streamed {
  std::vector<Matrix<Number>> C;  // one per product, NaN where a result did not leave the array
  std::int64_t cycles = 0;        // from the entry of the first activation to the last
                                  // multiplication
  std::int64_t macs = 0;          // counted cell by cell
};

// Feeds products to one array, one after another. While a product multiplies, the weights of the
// next shift in from above, and it follows as soon as they can be there.
template <class Number>
class Feeder {
 public:
  Feeder(const std::vector<Product<Number>>& products, std::uint32_t breaks)
      : products_(products), breaks_(breaks) {
    for (const auto& [A, B] : products) {
      rows = std::max(rows, B.rows);
      cols = std::max(cols, B.cols);
      start_.push_back(start_.empty() ? 0 : start_.back() + std::max(last_m_, B.rows));
      last_m_ = A.rows;
    }
    entering_.resize(rows);
    loading_.assign(cols, 1);
  }

  // [anchor: arrival]
  // Returns the input of row k in this cycle. Row k starts k cycles late, because sums take that
  // long to come down.
  Arrival<Number> arrival(int k, std::int64_t cycle) {
    const std::int64_t stagger = breaks_ & kNoStagger ? 0 : k;
    std::size_t& p = entering_[k];
    const auto m = [&] { return cycle - stagger - start_[p]; };
    while (p < products_.size() && (k >= products_[p].B.rows || m() >= products_[p].A.rows)) ++p;
    if (p == products_.size() || m() < 0) return {};
    const auto& [A, B] = products_[p];
    return {true, m() == 0, static_cast<int>(p), B.cols, A(static_cast<int>(m()), k)};
  }
  // [/anchor: arrival]

  // [anchor: shift]
  // Returns the input of column n, which are the weights of the next product, the last row first.
  // It starts n cycles after column 0 and reaches one more row per cycle, right after the previous
  // swap.
  Shift<Number> shift(int n, std::int64_t cycle) {
    std::size_t& p = loading_[n];
    const auto step = [&] { return cycle - start_[p - 1] - n; };
    while (p < products_.size() && (n >= products_[p].B.cols || step() >= products_[p].B.rows)) ++p;
    if (p >= products_.size() || step() < 0) return {};
    const int row = products_[p].B.rows - 1 - static_cast<int>(step());
    return {&products_[p].B(row, n), static_cast<int>(step()) + 1};
  }
  // [/anchor: shift]

  bool starts(std::int64_t cycle) const {
    return std::find(start_.begin(), start_.end(), cycle) != start_.end();
  }
  bool finished() const {
    return std::all_of(entering_.begin(), entering_.end(),
                       [&](std::size_t p) { return p == products_.size(); });
  }

  int rows = 0, cols = 0;  // used part of the array

 private:
  const std::vector<Product<Number>>& products_;
  std::uint32_t breaks_;
  std::vector<std::int64_t> start_;  // cycle in which the first activation of a product enters
  std::vector<std::size_t> entering_, loading_;  // per row and per column, the product
  int last_m_ = 0;
};

// Ticks until every product has left the array. Calls `watch(cycle, array)` after each cycle.
template <class Number, class Watch>
Streamed<Number> stream(const std::vector<Product<Number>>& products, std::uint32_t breaks,
                        Watch watch) {
  Feeder<Number> feeder(products, breaks);
  WeightStationary<Number> array(feeder.rows, feeder.cols);
  array.preload(products[0].B);
  Streamed<Number> run;
  std::vector<std::vector<int>> left_below;  // results that have left, per product and column
  for (const auto& [A, B] : products) {
    run.C.emplace_back(A.rows, B.cols, never_written<Number>());
    left_below.emplace_back(B.cols);
  }
  std::vector<Arrival<Number>> left(feeder.rows);
  std::vector<Shift<Number>> top(feeder.cols);
  for (std::int64_t cycle = 0;; ++cycle) {
    for (int k = 0; k < feeder.rows; ++k) left[k] = feeder.arrival(k, cycle);
    for (int n = 0; n < feeder.cols; ++n) top[n] = feeder.shift(n, cycle);
    if (breaks & kDrainForgotten && feeder.finished()) break;
    if (breaks & kSwappedEarly) {
      if (feeder.starts(cycle)) array.swap_all_weights();
      for (auto& arrival : left) arrival.swaps = false;
    }
    const int macs = array.tick(left, top);
    if (macs == 0 && feeder.finished()) break;
    run.macs += macs;
    if (macs > 0) run.cycles = cycle + 1;
    for (int k = 0; k < feeder.rows; ++k) {  // a sum to which the last row has added is a result
      for (int n = 0; n < feeder.cols; ++n) {
        const auto& cell = array.cells()(k, n);
        const int p = cell.activation.product;
        if (!cell.activation.here || k != products[p].B.rows - 1) continue;
        run.C[p](left_below[p][n]++, n) = cell.sum;
      }
    }
    watch(cycle, array);
  }
  return run;
}

}  // namespace ch18
