// Computes a product of any size on an array of any size. It splits it into tiles, ticks them,
// counts and checks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "matrix.hpp"

namespace ch18 {

enum class Dataflow { kWeight, kOutput };

struct MatmulRequest {
  std::int64_t m = 2, k = 3, n = 2;
  std::int64_t rows = 128, cols = 128;  // size of the array
  Dataflow dataflow = Dataflow::kWeight;
  bool double_buffer = false;  // weights of the next tile arrive while this one multiplies
  std::uint32_t breaks = 0;
  std::uint32_t seed = 1;
  bool trace = false;
};

// Work of one cell in one cycle.
struct CellStep {
  int tile, row, col;
  std::string a, b;      // operands, such as a01, b10
  double before, after;  // the sum before and after adding their product
  std::string sum;       // the sum as a formula
};

struct CycleStep {
  std::int64_t cycle;
  std::vector<CellStep> cells;  // those that multiplied
};

// A tile is the part of the product that the array computes at a time. If weight-stationary, all M
// rows, K × N of B. If output-stationary, all of K, M × N of C.
struct Tile {
  std::int64_t m, k, n;
  std::int64_t cells(Dataflow dataflow) const {
    return dataflow == Dataflow::kWeight ? k * n : m * n;
  }
  std::int64_t cycles() const { return m + k + n - 2; }
};

struct MatmulRun {
  bool ticked = false;  // false if too large to tick, so cycles come from the formula, which tests
                        // compare with ticking
  std::int64_t tiles = 0, cycles = 0, macs = 0;
  std::int64_t feed_cycles = 0;  // weight-stationary: loading of the first weights;
                                 // if output-stationary, shifting out the last results
  double utilization = 0;        // macs / (rows · cols · cycles)
  Matrix<double> a, b, c;        // if ticked
  std::vector<CycleStep> trace;
  int nonfinite = 0, mismatches = 0;
  double max_abs_error = 0;  // NaN if a difference is NaN
  std::string first_bad;
  bool passed() const { return mismatches == 0; }
};

// Throws fa::InputError if the product is too large to trace or to break.
MatmulRun run_matmul(const MatmulRequest& request);

// Returns the cycles of the tiles one after another, or with double-buffered weights.
std::int64_t tile_cycles(const std::vector<Tile>& tiles, bool double_buffer);

}  // namespace ch18
