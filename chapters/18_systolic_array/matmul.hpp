// A product of any size on an array of any size: cut into tiles, ticked, counted, checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "matrix.hpp"

namespace ch18 {

enum class Dataflow { kWeight, kOutput };

struct MatmulRequest {
  std::int64_t m = 2, k = 3, n = 2;
  std::int64_t rows = 128, cols = 128;  // of the array
  Dataflow dataflow = Dataflow::kWeight;
  bool double_buffer = false;  // weights of the next tile arrive while this one multiplies
  std::uint32_t breaks = 0;
  std::uint32_t seed = 1;
  bool trace = false;
};

// What one cell did in one cycle.
struct CellStep {
  int tile, row, col;
  std::string a, b;      // which operands met: a01, b10
  double before, after;  // the sum without and with their product
  std::string sum;       // the sum as a formula
};

struct CycleStep {
  std::int64_t cycle;
  std::vector<CellStep> cells;  // those that multiplied
};

// A tile: the part of the product that the array does at once. Weights: all M rows, K × N of B.
// Outputs: all of K, M × N of C.
struct Tile {
  std::int64_t m, k, n;
  std::int64_t cells(Dataflow dataflow) const {
    return dataflow == Dataflow::kWeight ? k * n : m * n;
  }
  std::int64_t cycles() const { return m + k + n - 2; }
};

struct MatmulRun {
  bool ticked = false;  // false: too large to tick; cycles by the formula that ticking proves
  std::int64_t tiles = 0, cycles = 0, macs = 0;
  std::int64_t feed_cycles = 0;  // before: weights into the array; after: results out of it
  double utilization = 0;        // macs / (rows · cols · cycles)
  Matrix<double> a, b, c;        // if ticked
  std::vector<CycleStep> trace;
  int nonfinite = 0, mismatches = 0;
  double max_abs_error = 0;  // NaN once one difference is
  std::string first_bad;
  bool passed() const { return mismatches == 0; }
};

// Throws fa::InputError for what is too large to trace or to break.
MatmulRun run_matmul(const MatmulRequest& request);

// Cycles of the tiles one after the other, or with the weights double-buffered.
std::int64_t tile_cycles(const std::vector<Tile>& tiles, bool double_buffer);

}  // namespace ch18
