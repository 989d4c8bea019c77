#include "matmul.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "common/error.hpp"
#include "output_stationary.hpp"
#include "weight_stationary.hpp"

namespace ch18 {
namespace {

constexpr std::int64_t kMostCellTicks = std::int64_t{1} << 28;  // a few seconds
constexpr std::int64_t kMostWords = std::int64_t{1} << 26;
constexpr std::int64_t kMostTraced = 1 << 20;

// Position and size of a tile in A [M, K] and B [K, N].
struct Place {
  std::int64_t m, k, n;
  Tile tile;
};

// The tiles of a product in the order of computation, first along the dimension of the sum, or down
// a column of C.
class Tiling {
 public:
  explicit Tiling(const MatmulRequest& r)
      : r_(r), weight_(r.dataflow == Dataflow::kWeight), height_(weight_ ? r.k : r.m) {
    down_ = (height_ - 1) / r.rows + 1;
    across_ = (r.n - 1) / r.cols + 1;
  }
  std::int64_t size() const { return down_ * across_; }
  Place operator[](std::int64_t i) const {
    const std::int64_t at = i % down_ * r_.rows, n = i / down_ * r_.cols;
    const std::int64_t height = std::min(r_.rows, height_ - at),
                       width = std::min(r_.cols, r_.n - n);
    return weight_ ? Place{0, at, n, {r_.m, height, width}}
                   : Place{at, 0, n, {height, r_.k, width}};
  }
  // Returns Σ cost(tile). There are only four kinds of tiles, because only the last in each
  // direction is smaller.
  template <class Cost>
  auto sum(Cost cost) const {
    const auto column = [&](std::int64_t first) {
      const std::int64_t last = first + down_ - 1;
      return (down_ - 1) * cost((*this)[first].tile) + cost((*this)[last].tile);
    };
    return (across_ - 1) * column(0) + column(size() - down_);
  }

 private:
  const MatmulRequest& r_;
  bool weight_;
  std::int64_t height_, down_, across_;
};

// Returns the cycles without ticking.
std::int64_t formula_cycles(const MatmulRequest& request, const Tiling& tiling) {
  if (!request.double_buffer) return tiling.sum([](const Tile& tile) { return tile.cycles(); });
  // Tiles far from the end finish before it, so only the others are computed one by one.
  const std::int64_t near = std::min(tiling.size(), request.rows + request.cols);
  std::vector<Tile> last;
  std::int64_t entered = tiling.sum([](const Tile& tile) { return std::max(tile.m, tile.k); });
  for (std::int64_t i = tiling.size() - near; i < tiling.size(); ++i) {
    last.push_back(tiling[i].tile);
    entered -= std::max(last.back().m, last.back().k);
  }
  if (near <
      tiling.size()) {  // the first tile did not wait for its weights, but the first of `last` did
    entered += std::max(last[0].m, last[0].k) - std::max(tiling[0].tile.m, tiling[0].tile.k);
  }
  return entered + tile_cycles(last, true);
}

void keep_cell(std::vector<CellStep>& steps, int tile, int row, int col,
               const WeightStationary<Named>::Cell& cell) {
  if (!cell.activation.here) return;
  steps.push_back({tile + cell.activation.product, row, col, cell.activation.value.name,
                   cell.weight.name, cell.above.value, cell.sum.value, cell.sum.name});
}

void keep_cell(std::vector<CellStep>& steps, int tile, int row, int col,
               const OutputStationary<Named>::Cell& cell) {
  if (!cell.a.here || !cell.b.here) return;
  steps.push_back({tile, row, col, cell.a.value.name, cell.b.value.name, cell.before.value,
                   cell.sum.value, cell.sum.name});
}

template <class Array>
void keep(std::vector<CycleStep>& trace, std::int64_t cycle, int tile, const Array& array) {
  auto& step = trace.emplace_back(CycleStep{cycle, {}});
  for (int row = 0; row < array.cells().rows; ++row) {
    for (int col = 0; col < array.cells().cols; ++col) {
      keep_cell(step.cells, tile, row, col, array.cells()(row, col));
    }
  }
}

double value_of(double number) { return number; }
double value_of(const Named& number) { return number.value; }

// Ticks every tile and accumulates C.
template <class Number>
void tick_all(const MatmulRequest& request, const Matrix<Number>& A, const Matrix<Number>& B,
              MatmulRun& run) {
  const auto watch = [&](int tile) {
    if constexpr (std::is_same_v<Number, Named>) {
      return [&run, tile, before = run.cycles](std::int64_t cycle, auto& array) {
        keep(run.trace, before + cycle, tile, array);
      };
    } else {
      return [](auto...) {};
    }
  };
  std::vector<Place> places;
  const Tiling tiling(request);
  for (std::int64_t i = 0; i < tiling.size(); ++i) places.push_back(tiling[i]);
  std::vector<Product<Number>> products;
  std::vector<Matrix<Number>> results;
  const auto take = [&](Streamed<Number> streamed) {
    run.cycles += streamed.cycles;
    run.macs += streamed.macs;
    for (auto& result : streamed.C) results.push_back(std::move(result));
  };
  for (const auto& [m, k, n, tile] : places) {
    Product<Number> product{A.block(m, k, tile.m, tile.k), B.block(k, n, tile.k, tile.n)};
    if (request.dataflow == Dataflow::kOutput) {
      take(accumulate(product.A, product.B, request.breaks,
                      watch(static_cast<int>(results.size()))));
    } else if (request.double_buffer) {
      products.push_back(std::move(product));
    } else {
      take(stream(std::vector{product}, request.breaks, watch(static_cast<int>(results.size()))));
    }
  }
  if (!products.empty()) take(stream(products, request.breaks, watch(0)));
  run.c = Matrix<double>(A.rows, B.cols);
  for (std::size_t i = 0; i < places.size(); ++i) {  // the accumulators after the array
    for (int m = 0; m < results[i].rows; ++m) {
      for (int n = 0; n < results[i].cols; ++n) {
        run.c(places[i].m + m, places[i].n + n) += value_of(results[i](m, n));
      }
    }
  }
}

// All values are small integers, so the results must be equal.
void compare(MatmulRun& run) {
  const Matrix<double> expected = plain_product(run.a, run.b);
  for (int i = 0; i < expected.rows; ++i) {
    for (int j = 0; j < expected.cols; ++j) {
      const double got = run.c(i, j), error = std::abs(got - expected(i, j));
      if (!std::isfinite(got)) ++run.nonfinite;
      if (error == 0) continue;  // error == 0 is false for a NaN
      if (run.mismatches++ == 0) {
        const bool long_indices = std::max(expected.rows, expected.cols) > 10;
        run.first_bad = entry_name("c", i, j, long_indices) +
                        (std::isfinite(got) ? " is " + std::to_string(std::llround(got))
                                            : " never left the array") +
                        ", expected " + std::to_string(std::llround(expected(i, j)));
      }
      if (!(error <= run.max_abs_error)) run.max_abs_error = error;
    }
  }
  if (run.nonfinite) run.max_abs_error = std::nan("");
}

}  // namespace

std::int64_t tile_cycles(const std::vector<Tile>& tiles, bool double_buffer) {
  std::int64_t cycles = 0, start = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    // [anchor: double_buffer]
    if (!double_buffer) {
      cycles += tiles[i].cycles();
    } else {  // tile i starts when tile i − 1 has entered and its own weights are loaded
      if (i > 0) start += std::max(tiles[i - 1].m, tiles[i].k);
      cycles = std::max(cycles, start + tiles[i].cycles());
    }
    // [/anchor: double_buffer]
  }
  return cycles;
}

MatmulRun run_matmul(const MatmulRequest& request) {
  MatmulRun run;
  const Tiling tiling(request);
  run.tiles = tiling.size();
  const double cell_ticks = tiling.sum([&](const Tile& tile) {
    return static_cast<double>(tile.cells(request.dataflow)) * static_cast<double>(tile.cycles());
  });
  const double words = tiling.sum([](const Tile& tile) {
    return static_cast<double>(tile.m) * tile.k + static_cast<double>(tile.k) * tile.n +
           static_cast<double>(tile.m) * tile.n;
  });
  const double macs = static_cast<double>(request.m) * request.k * request.n;
  run.ticked = cell_ticks <= kMostCellTicks && words <= kMostWords;
  run.feed_cycles =
      request.dataflow == Dataflow::kWeight ? tiling[0].tile.k : tiling[tiling.size() - 1].tile.m;
  if (request.trace && macs > kMostTraced) {
    throw fa::InputError("--trace: " + std::to_string(static_cast<std::int64_t>(macs)) +
                         " multiplications to print; accepted: up to " +
                         std::to_string(kMostTraced));
  }
  if (!run.ticked && request.breaks) {
    throw fa::InputError("--break: the product is too large to tick, so nothing can break");
  }
  if (run.ticked) {
    run.a = random_digits(request.m, request.k, request.seed);
    run.b = random_digits(request.k, request.n, request.seed + 1);
    if (request.trace) {
      tick_all(request, named(run.a, "a"), named(run.b, "b"), run);
    } else {
      tick_all(request, run.a, run.b, run);
    }
    compare(run);
  } else {
    run.cycles = formula_cycles(request, tiling);
    run.macs = static_cast<std::int64_t>(macs);
  }
  run.utilization = static_cast<double>(run.macs) /
                    (static_cast<double>(request.rows) * request.cols * run.cycles);
  return run;
}

}  // namespace ch18
