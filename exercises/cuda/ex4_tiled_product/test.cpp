#include <doctest/doctest.h>

#include <functional>

#include "exercises/support/cuda.hpp"

using exercise::Numbers;

constexpr int TILE = 16, WARPS = TILE * TILE / 32;

struct Size {
  int m, n, k;
};

static double a(const Size& size, int row, int i) { return 1 + (row * size.k + i) * 5 % 7; }
static double b(const Size& size, int i, int column) {
  if (i >= size.k || column >= size.n) return 0;  // as the tile has it
  return 1 + (i * size.n + column) * 3 % 11;
}

// C, with term(row, column, i) in place of a[row][i] * b[i][column].
static Numbers product(const Size& size, const std::function<double(int, int, int)>& term) {
  Numbers all;
  for (int row = 0; row < size.m; ++row) {
    for (int column = 0; column < size.n; ++column) {
      double sum = 0;
      for (int i = 0; i < size.k; ++i) sum += term(row, column, i);
      all.push_back(sum);
    }
  }
  return all;
}

static void check_product(const Size& size) {
  const exercise::CudaRun run =
      exercise::run_cuda({std::to_string(size.m), std::to_string(size.n), std::to_string(size.k)});
  const auto right_term = [&](int row, int column, int i) {
    return a(size, row, i) * b(size, i, column);
  };
  const Numbers got = run.numbers("c"), expected = product(size, right_term);
  const bool whole = size.m % TILE == 0 && size.n % TILE == 0 && size.k % TILE == 0;
  const int64_t tiles = int64_t{size.m / TILE} * (size.n / TILE) * (size.k / TILE);
  // Each tile has 16 rows of two sectors. A warp reads one word of A per row and 16 of B, TILE
  // times.
  const int64_t sectors = run.counter("global_load_sectors"), enough = 2 * 2 * TILE * tiles;
  const int64_t wavefronts = run.counter("shared_load_wavefronts"),
                ideal = int64_t{2} * TILE * WARPS * tiles;
  const bool right = run.hazards.empty() && got == expected;
  const std::vector<exercise::Suspect> suspects = {
      {"first-barrier-forgotten", run.has("read_before_barrier") && !run.has("uninitialized_read"),
       "a thread reads numbers of the tiles that other warps store: a barrier has to be between"},
      {"second-barrier-forgotten", run.only({"overwrite_while_read"}),
       "a fast warp loads the next tiles while a slow one still multiplies: a barrier is missing "
       "at "
       "the end of the loop"},
      {"edges-not-guarded", run.has("out_of_bounds"),
       "tiles at the edge have elements outside the matrix. Store a 0 for them"},
      {"early-return", run.has("uninitialized_read"),
       "threads outside C have returned, and their elements of the tiles are missing. They have to "
       "load, and to arrive at the barriers"},
      {"no-tiles", right && wavefronts == 0,
       "right, but every number comes from global memory once for each product"},
      {"x-for-rows", right && wavefronts > ideal,
       "right, but lanes with neighbouring threadIdx.x go down a column: their addresses are far "
       "apart. Let x be the column"}};
  if (!exercise::check_no_hazards(run, suspects)) return;
  exercise::check_output(
      {"c", size.n, 0}, got, expected,
      {{"columns-of-b",
        product(size,
                [&](int row, int column, int i) {
                  const int first = i / TILE * TILE, left = column / TILE * TILE;
                  return a(size, row, i) * b(size, first + column % TILE, left + i % TILE);
                }),
        "b_tile[x][i] is row x of B's tile. The sum needs column x: b_tile[i][x]"},
       {"sum-restarted",
        product(size,
                [&](int row, int column, int i) {
                  const bool last = i >= (size.k - 1) / TILE * TILE;
                  return last ? right_term(row, column, i) : 0;
                }),
        "only the last pair of tiles counts: the sum must start before the loop over the tiles"}});
  if (got != expected || !whole) return;
  exercise::check(sectors <= enough,
                  "right, but it loads " + std::to_string(sectors) + " sectors of global memory, " +
                      std::to_string(enough) + " would do",
                  suspects);
  exercise::check(wavefronts <= ideal,
                  "right, but it reads " + std::to_string(wavefronts) +
                      " wavefronts of shared memory, " + std::to_string(ideal) + " would do",
                  suspects);
}

TEST_CASE("whole tiles") { check_product({48, 32, 64}); }
TEST_CASE("tiles at the edge") { check_product({20, 24, 40}); }
