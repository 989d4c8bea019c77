#include <doctest/doctest.h>

#include <functional>

#include "exercises/support/cuda.hpp"

using exercise::Numbers;

constexpr int TILE = 32;

// The transposed matrix, whose element [c][r] comes from column from(c, r) of row r.
static Numbers transposed(int rows, int columns, const std::function<int(int c, int r)>& from) {
  Numbers all;
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r) all.push_back(r * columns + from(c, r));
  return all;
}

static const char* const SWIZZLED_ONCE =
    "the tile is stored in swizzled places, but read from plain ones";

static void check_transpose(int rows, int columns) {
  const exercise::CudaRun run = exercise::run_cuda({std::to_string(rows), std::to_string(columns)});
  const Numbers got = run.numbers("out");
  const Numbers expected = transposed(rows, columns, [](int c, int) { return c; });
  const int64_t loads = run.counter("shared_load_wavefronts"),
                stores = run.counter("shared_store_wavefronts");
  const int64_t sectors = run.counter("global_load_sectors") + run.counter("global_store_sectors");
  const int64_t bytes = run.counter("shared_bytes_per_block");
  const bool whole = rows % TILE == 0 && columns % TILE == 0;
  // A tile has 32 rows, and each takes one wavefront and four sectors, twice.
  const int64_t tiles = rows / TILE * (columns / TILE), enough = 2 * TILE * tiles,
                ideal_sectors = 2 * 4 * TILE * tiles;
  const bool right = run.hazards.empty() && got == expected;
  const std::vector<exercise::Suspect> suspects = {
      {"barrier-forgotten", run.only({"read_before_barrier", "overwrite_while_read"}),
       "a thread reads what other warps have stored, so a barrier has to be between the two"},
      {"tile-not-moved", run.only({"global_race"}),
       "the tile is transposed, but its place in the matrix is not: its rows begin at the tile's "
       "first column"},
      {"swizzled-once", !whole && run.has("uninitialized_read"), SWIZZLED_ONCE},
      {"guards-swapped", run.has("uninitialized_read"),
       "x is the row of the tile in the second loop, so it belongs to the test of the rows"},
      {"padding", right && bytes > TILE * TILE * 4 && loads + stores <= enough,
       "right and free of conflicts, but the tile takes more than 4096 bytes. A swizzle needs "
       "none"},
      {"too-few-distances", right && loads == 4 * TILE * tiles,
       "the rows are moved by only 8 distances, so that 4 words of a column still share a bank. "
       "(row % 8 is for chunks of 16 bytes)"},
      {"conflict-moved", right && stores == TILE * TILE * tiles && loads == TILE * tiles,
       "now the stores go down a column: what was slow has moved to them"},
      {"stores-out-of-order", right && whole && sectors > ideal_sectors,
       "shared memory is fast, but neighbouring lanes no longer store to neighbouring addresses of "
       "global memory"}};
  if (!exercise::check_no_hazards(run, suspects)) return;
  exercise::check_output(
      {"out", rows, 0}, got, expected,
      {{"swizzled-once", transposed(rows, columns, [](int c, int r) { return c ^ r % TILE; }),
        SWIZZLED_ONCE}});
  if (got != expected || !whole) return;
  exercise::check(sectors <= ideal_sectors,
                  "right, but it takes " + std::to_string(sectors) + " sectors of global memory, " +
                      std::to_string(ideal_sectors) + " would do",
                  suspects);
  exercise::check(loads + stores <= enough,
                  "right, but it takes " + std::to_string(loads + stores) + " wavefronts, " +
                      std::to_string(enough) + " would do",
                  suspects);
  exercise::check(bytes <= TILE * TILE * 4,
                  "right, but it takes " + std::to_string(bytes) + " bytes of shared memory, " +
                      std::to_string(TILE * TILE * 4) + " would do",
                  suspects);
}

TEST_CASE("64 x 96: whole tiles") { check_transpose(64, 96); }
TEST_CASE("40 x 72: tiles at the edge") { check_transpose(40, 72); }
