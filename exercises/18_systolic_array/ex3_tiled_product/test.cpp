#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tiled_product.hpp>

#include "exercises/support/verdict.hpp"

struct Sizes {
  int M, K, N, rows, cols;
};

// Σ over the tiles that a cut of K and N at `rows` and `cols` gives.
template <class Cost>
static std::int64_t over_tiles(const Sizes& s, int rows, int cols, Cost cost) {
  std::int64_t sum = 0;
  for (int k = 0; k < s.K; k += rows) {
    for (int n = 0; n < s.N; n += cols)
      sum += cost(std::min(rows, s.K - k), std::min(cols, s.N - n));
  }
  return sum;
}

static void check_cycles(const Sizes& s) {
  const auto [M, K, N, rows, cols] = s;
  const int m = M, r = rows, c = cols, K_ = K, N_ = N;  // lambdas cannot hold the names above
  const auto number = [](std::int64_t cycles) {
    return exercise::Numbers{static_cast<double>(cycles)};
  };
  const auto own = [m](int height, int width) { return m + height + width - 2; };
  std::int64_t cut_too = 0;
  for (int i = 0; i < M; i += rows) {
    const int part = std::min(rows, M - i);
    cut_too +=
        over_tiles(s, r, c, [part](int height, int width) { return part + height + width - 2; });
  }
  // The last tile down or across costs the rest of the length, even if that is 0, or there is one
  // more tile for it.
  const auto with_rest = [=](bool down, bool across, bool one_more) {
    const auto count = [=](int length, int block) {
      return one_more ? length / block + 1 : (length + block - 1) / block;
    };
    const auto size = [](bool rest, int i, int tiles, int length, int block) {
      return rest && i + 1 == tiles ? length % block : std::min(block, length - i * block);
    };
    std::int64_t sum = 0;
    for (int i = 0; i < count(K_, r); ++i)
      for (int j = 0; j < count(N_, c); ++j)
        sum += own(size(down, i, count(K_, r), K_, r), size(across, j, count(N_, c), N_, c));
    return sum;
  };
  const char* const rest =
      "the last tile was given K % rows rows or N % cols columns. That is 0, and not a whole tile, "
      "if the size is a multiple of the array's";
  exercise::check_output(
      {"cycles of " + std::to_string(M) + " × " + std::to_string(K) + " by " + std::to_string(K) +
           " × " + std::to_string(N) + " on " + std::to_string(rows) + " × " + std::to_string(cols),
       0, 0},
      number(product_cycles(M, K, N, rows, cols)), number(over_tiles(s, r, c, own)),
      {{"array-as-wide-as-the-product", number(M + K + N - 2),
        "this is one pass through an array of K × N cells. The array has rows × cols"},
       {"sum-in-an-int", number(static_cast<std::int32_t>(over_tiles(s, r, c, own))),
        "the sum was an int, and passed 2^31: add up in an int64_t, the type that is returned"},
       {"full-tiles-only", number(over_tiles(s, r, c, [=](int, int) { return m + r + c - 2; })),
        "every tile is charged as a full one. A smaller tile occupies only its own rows and "
        "columns"},
       {"last-tile-lost", number(std::int64_t{K / rows} * (N / cols) * (M + rows + cols - 2)),
        "K / rows rounds down: the remainder is a tile, too"},
       {"last-tile-lost",
        number(std::int64_t{std::max(1, K / rows)} * std::max(1, N / cols) *
               own(std::min(rows, K), std::min(cols, N))),
        "K / rows rounds down: the remainder is a tile, too"},
       {"rest-that-is-zero", number(with_rest(true, true, false)), rest},
       {"rest-that-is-zero", number(with_rest(true, false, false)), rest},
       {"rest-that-is-zero", number(with_rest(false, true, false)), rest},
       {"rest-that-is-zero", number(with_rest(true, true, true)),
        "there are K / rows full tiles and one tile for the rest, even if the rest is 0. Then "
        "there is no such tile"},
       {"drained-once",
        number(over_tiles(s, r, c, [m](int, int) { return m; }) + std::min(rows, K) +
               std::min(cols, N) - 2),
        "fill and drain are counted once. Here the array drains before each next tile"},
       {"rows-of-a-cut-too", number(cut_too),
        "A is cut into blocks of rows. The array does not limit M, A streams past"},
       {"two-forgotten",
        number(over_tiles(s, r, c, [m](int height, int width) { return m + height + width; })),
        "M + K + N counts the first cycle three times, for the first row, the first column and the "
        "first row of A, which share it"},
       {"one-for-two",
        number(over_tiles(s, r, c, [m](int height, int width) { return m + height + width - 1; })),
        "M + K + N - 1 takes one cycle off for each tile, but three share the first cycle, so two "
        "must be taken off"},
       {"rows-streamed-once",
        number(over_tiles(s, r, c, [](int height, int width) { return height + width - 2; }) + m),
        "M is counted once. All rows of A stream past each tile of B"},
       {"rows-streamed-once",
        number(over_tiles(s, r, c, [](int height, int width) { return height + width; }) + m - 2),
        "M is counted once. All rows of A stream past each tile of B"},
       {"tiles-of-full-size",
        number(over_tiles(s, r, c, [=](int, int) { return m + K_ + N_ - 2; })),
        "each tile is charged K + N, the whole product's. Its own height and width count"},
       {"all-tiles-as-the-first",
        number(over_tiles(s, r, c,
                          [=](int, int) { return m + std::min(r, K_) + std::min(c, N_) - 2; })),
        "every tile is charged as the first one. The last ones may be smaller"},
       {"rows-and-columns-swapped", number(over_tiles(s, c, r, own)),
        "K runs along the rows of the array, N along its columns"}});
}

TEST_CASE("it fits") { check_cycles({9, 3, 5, 8, 8}); }
TEST_CASE("Q @ K.T of the lesson") { check_cycles({512, 64, 512, 128, 128}); }
TEST_CASE("P @ V of the lesson") { check_cycles({512, 512, 64, 128, 128}); }
TEST_CASE("the last tiles are smaller") { check_cycles({10, 13, 19, 8, 8}); }
TEST_CASE("an array that is no square") { check_cycles({10, 12, 18, 4, 9}); }
TEST_CASE("a million rows of A, 4096 tiles of B: more than 2^31 cycles") {
  check_cycles({1 << 20, 1 << 14, 1 << 14, 256, 256});
}
TEST_CASE("one row of A") { check_cycles({1, 16, 16, 4, 4}); }
