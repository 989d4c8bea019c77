#include "matmul.hpp"

#include <algorithm>
#include <cmath>

#include "common/error.hpp"
#include "output_stationary.hpp"
#include "weight_stationary.hpp"

namespace ch18 {
namespace {

constexpr std::int64_t kMostCellTicks = std::int64_t{1} << 28;  // a few seconds
constexpr std::int64_t kMostWords = std::int64_t{1} << 26;
constexpr std::int64_t kMostTiles = 100'000'000;
constexpr std::int64_t kMostTraced = 1 << 20;

// Where a tile is in A [M, K] and B [K, N], and how large.
struct Place {
  std::int64_t m, k, n;
  Tile tile;
};

// The inner loop runs along the dimension that a result is summed over, or along a row of C.
template <class Visit>
void for_each_tile(const MatmulRequest& r, Visit visit) {
  const bool weight = r.dataflow == Dataflow::kWeight;
  for (std::int64_t n = 0; n < r.n; n += r.cols) {
    const std::int64_t width = std::min(r.cols, r.n - n);
    for (std::int64_t at = 0; at < (weight ? r.k : r.m); at += r.rows) {
      const std::int64_t height = std::min(r.rows, (weight ? r.k : r.m) - at);
      if (weight) {
        visit(Place{0, at, n, {r.m, height, width}});
      } else {
        visit(Place{at, 0, n, {height, r.k, width}});
      }
    }
  }
}

void keep(std::vector<CycleStep>* trace, std::int64_t cycle, int tile, auto& array, auto step_of) {
  auto& step = trace->emplace_back(CycleStep{cycle, tile, {}});
  for (int row = 0; row < array.cells().rows; ++row) {
    for (int col = 0; col < array.cells().cols; ++col) {
      step_of(row, col, array.cells()(row, col), step.cells);
    }
  }
}

double value_of(double number) { return number; }
double value_of(const Named& number) { return number.value; }

// Ticks every tile; adds up C.
template <class Number>
void tick_all(const MatmulRequest& request, const Matrix<Number>& A, const Matrix<Number>& B,
              MatmulRun& run) {
  const auto watch = [&](int tile) {
    return [&run, &request, tile, before = run.cycles](std::int64_t cycle, auto& array) {
      if constexpr (std::is_same_v<Number, Named>) {
        keep(&run.trace, before + cycle, tile, array,
             [&](int row, int col, auto& cell, std::vector<CellStep>& steps) {
               if constexpr (requires { cell.activation; }) {
                 if (!cell.activation.here) return;
                 steps.push_back({row, col, cell.activation.value.name, cell.weight.name,
                                  cell.above.value, cell.sum.value, cell.sum.name});
               } else {
                 if (!cell.a.here || !cell.b.here) return;
                 steps.push_back({row, col, cell.a.value.name, cell.b.value.name, cell.before.value,
                                  cell.sum.value, cell.sum.name});
               }
             });
      }
    };
  };
  std::vector<Place> places;
  for_each_tile(request, [&](const Place& place) { places.push_back(place); });
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
  for (std::size_t i = 0; i < places.size(); ++i) {  // the accumulators below the array
    for (int m = 0; m < results[i].rows; ++m) {
      for (int n = 0; n < results[i].cols; ++n) {
        run.c(places[i].m + m, places[i].n + n) += value_of(results[i](m, n));
      }
    }
  }
}

// All numbers are whole and small, so the results must be equal.
void compare(MatmulRun& run) {
  const Matrix<double> expected = plain_product(run.a, run.b);
  for (int i = 0; i < expected.rows; ++i) {
    for (int j = 0; j < expected.cols; ++j) {
      const double got = run.c(i, j), error = std::abs(got - expected(i, j));
      if (!std::isfinite(got)) ++run.nonfinite;
      if (error == 0) continue;  // false for a NaN
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
    } else {  // tile i starts when tile i − 1 has entered, and its own weights have
      if (i > 0) start += std::max(tiles[i - 1].m, tiles[i].k);
      cycles = std::max(cycles, start + tiles[i].cycles());
    }
    // [/anchor: double_buffer]
  }
  return cycles;
}

MatmulRun run_matmul(const MatmulRequest& request) {
  MatmulRun run;
  const std::int64_t outer = request.dataflow == Dataflow::kWeight ? request.k : request.m;
  const auto pieces = [](std::int64_t length, std::int64_t size) {
    return (length - 1) / size + 1;
  };
  run.tiles = pieces(outer, request.rows) * pieces(request.n, request.cols);
  if (run.tiles > kMostTiles) {
    throw fa::InputError("--rows " + std::to_string(request.rows) + " --cols " +
                         std::to_string(request.cols) + ": " + std::to_string(run.tiles) +
                         " tiles; accepted: up to " + std::to_string(kMostTiles));
  }
  std::vector<Tile> tiles;
  tiles.reserve(run.tiles);
  double cell_ticks = 0, words = 0;
  for_each_tile(request, [&](const Place& place) {
    const Tile& tile = place.tile;
    cell_ticks += static_cast<double>(tile.cells(request.dataflow)) * tile.cycles();
    words += static_cast<double>(tile.m) * tile.k + tile.k * tile.n + tile.m * tile.n;
    tiles.push_back(tile);
  });
  const double macs = static_cast<double>(request.m) * request.k * request.n;
  run.ticked = cell_ticks <= kMostCellTicks && words <= kMostWords;
  run.feed_cycles = request.dataflow == Dataflow::kWeight ? tiles[0].k : tiles.back().m;
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
    run.cycles = tile_cycles(tiles, request.double_buffer);
    run.macs = static_cast<std::int64_t>(macs);
  }
  run.utilization = static_cast<double>(run.macs) /
                    (static_cast<double>(request.rows) * request.cols * run.cycles);
  return run;
}

}  // namespace ch18
