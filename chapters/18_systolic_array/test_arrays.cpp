// Results, cycles and multiplications of the arrays.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <set>

#include "breaks.hpp"
#include "common/error.hpp"
#include "matmul.hpp"
#include "output_stationary.hpp"
#include "weight_stationary.hpp"

using namespace ch18;

namespace {

const auto kNobody = [](auto...) {};

template <class Number>
Streamed<Number> run_weight(const Matrix<Number>& a, const Matrix<Number>& b,
                            std::uint32_t breaks = 0) {
  return stream(std::vector<Product<Number>>{{a, b}}, breaks, kNobody);
}

template <class Number>
Matrix<Number> converted(const Matrix<double>& from) {
  Matrix<Number> to(from.rows, from.cols);
  for (std::size_t i = 0; i < from.values.size(); ++i) {
    to.values[i] = static_cast<Number>(from.values[i]);
  }
  return to;
}

void check_product(int m, int k, int n, std::uint32_t seed) {
  CAPTURE(m);
  CAPTURE(k);
  CAPTURE(n);
  const auto a = random_digits(m, k, seed), b = random_digits(k, n, seed + 1);
  const auto expected = plain_product(a, b).values;
  const auto by_weight = run_weight(a, b);
  const auto by_output = accumulate(a, b, 0, kNobody);
  const std::int64_t macs = std::int64_t{m} * k * n;
  REQUIRE(by_weight.C[0].values == expected);
  REQUIRE(by_output.C[0].values == expected);
  REQUIRE(by_weight.cycles == m + k + n - 2);
  REQUIRE(by_output.cycles == m + k + n - 2);
  REQUIRE(by_weight.macs == macs);
  REQUIRE(by_output.macs == macs);
}

int below(std::mt19937& random, int n) { return static_cast<int>(random() % n); }

}  // namespace

TEST_CASE("M + K + N - 2 cycles and the plain product, both designs, all sizes up to 16") {
  for (int m = 1; m <= 16; ++m) {
    for (int k = 1; k <= 16; ++k) {
      for (int n = 1; n <= 16; ++n) check_product(m, k, n, 1);
    }
  }
}

TEST_CASE("and at random sizes up to 100") {
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    check_product(1 + below(random, 100), 1 + below(random, 100), 1 + below(random, 100), random());
  }
}

TEST_CASE("the arrays are templates: fp32 adds up in the order of k") {
  std::mt19937 random(2);
  Matrix<float> a(7, 33), b(33, 5);
  for (float& x : a.values) x = static_cast<float>(random()) * 1e-9f - 2;
  for (float& x : b.values) x = static_cast<float>(random()) * 1e-9f - 2;
  Matrix<float> expected(7, 5);
  for (int i = 0; i < 7; ++i) {
    for (int j = 0; j < 5; ++j) {
      for (int k = 0; k < 33; ++k) expected(i, j) += a(i, k) * b(k, j);
    }
  }
  CHECK(run_weight(a, b).C[0].values == expected.values);
  CHECK(accumulate(a, b, 0, kNobody).C[0].values == expected.values);
}

TEST_CASE("formulas: each result has its K terms, in order") {
  const auto a = named(random_digits(3, 4, 1), "a"), b = named(random_digits(4, 2, 2), "b");
  for (const auto& C : {run_weight(a, b).C[0], accumulate(a, b, 0, kNobody).C[0]}) {
    CHECK(C(2, 1).name == "a20·b01 + a21·b11 + a22·b21 + a23·b31");
    CHECK(C(0, 0).name == "a00·b00 + a01·b10 + a02·b20 + a03·b30");
  }
}

TEST_CASE("the timetable of both designs, cell by cell") {
  const int M = 5, K = 4, N = 3;
  const auto a = named(random_digits(M, K, 1), "a"), b = named(random_digits(K, N, 2), "b");
  stream(std::vector<Product<Named>>{{a, b}}, 0, [&](std::int64_t cycle, auto& array) {
    for (int k = 0; k < K; ++k) {
      for (int n = 0; n < N; ++n) {  // A[m][k] is in cell (k, n) in cycle m + k + n
        const auto& cell = array.cells()(k, n);
        const std::int64_t m = cycle - k - n;
        REQUIRE(cell.activation.here == (m >= 0 && m < M));
        if (cell.activation.here) {
          REQUIRE(cell.activation.value.name == a(static_cast<int>(m), k).name);
          REQUIRE(cell.weight.name == b(k, n).name);
        }
      }
    }
  });
  accumulate(a, b, 0, [&](std::int64_t cycle, auto& array) {
    for (int i = 0; i < M; ++i) {
      for (int j = 0; j < N; ++j) {
        const auto& cell = array.cells()(i, j);
        const std::int64_t k = cycle - i - j;
        REQUIRE((cell.a.here && cell.b.here) == (k >= 0 && k < K));
      }
    }
  });
}

TEST_CASE("double-buffered: any stream of products, results as alone, cycles by the larger") {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::vector<Product<double>> products;
    std::vector<Tile> tiles;
    const int count = 1 + below(random, 6), largest = 1 + below(random, 12);
    std::int64_t macs = 0;
    for (int p = 0; p < count; ++p) {
      const int m = 1 + below(random, largest), k = 1 + below(random, largest);
      const int n = 1 + below(random, largest);
      products.push_back({random_digits(m, k, random()), random_digits(k, n, random())});
      tiles.push_back({m, k, n});
      macs += std::int64_t{m} * k * n;
    }
    const auto run = stream(products, 0, kNobody);
    for (int p = 0; p < count; ++p) {
      REQUIRE(run.C[p].values == plain_product(products[p].A, products[p].B).values);
    }
    REQUIRE(run.macs == macs);
    REQUIRE(run.cycles == tile_cycles(tiles, true));
  }
}

TEST_CASE("equal tiles with M >= K cost M each, and one fill and drain") {
  for (const int tiles : {1, 2, 5}) {
    MatmulRequest request{40, 16 * tiles, 16, 16, 16};
    request.double_buffer = true;
    CHECK(run_matmul(request).cycles == 40 * tiles + 16 + 16 - 2);
    request.m = 10;  // with fewer rows than cycles to load the weights, K each
    CHECK(run_matmul(request).cycles == 16 * (tiles - 1) + 10 + 16 + 16 - 2);
    request.double_buffer = false;
    CHECK(run_matmul(request).cycles == tiles * (10 + 16 + 16 - 2));
  }
}

TEST_CASE("products larger than the array, both designs: the sum of their tiles") {
  std::mt19937 random(4);
  for (int i = 0; i < 200; ++i) {
    MatmulRequest r{1 + below(random, 40), 1 + below(random, 40), 1 + below(random, 40)};
    r.rows = 1 + below(random, 12);
    r.cols = 1 + below(random, 12);
    r.dataflow = below(random, 2) ? Dataflow::kWeight : Dataflow::kOutput;
    r.double_buffer = r.dataflow == Dataflow::kWeight && below(random, 2);
    const MatmulRun run = run_matmul(r);
    REQUIRE(run.ticked);
    REQUIRE(run.passed());
    REQUIRE(run.macs == r.m * r.k * r.n);
    REQUIRE(run.utilization > 0);
    REQUIRE(run.utilization <= 1);
    std::vector<Tile> tiles;
    const bool weight = r.dataflow == Dataflow::kWeight;
    for (std::int64_t n = 0; n < r.n; n += r.cols) {
      for (std::int64_t at = 0; at < (weight ? r.k : r.m); at += r.rows) {
        const std::int64_t height = std::min(r.rows, (weight ? r.k : r.m) - at);
        const std::int64_t width = std::min(r.cols, r.n - n);
        tiles.push_back(weight ? Tile{r.m, height, width} : Tile{height, r.k, width});
      }
    }
    REQUIRE(run.tiles == static_cast<std::int64_t>(tiles.size()));
    REQUIRE(run.cycles == tile_cycles(tiles, r.double_buffer));
  }
}

TEST_CASE("too large to tick: the formula, and it says so") {
  const MatmulRun run = run_matmul({100000, 100000, 100000});
  CHECK_FALSE(run.ticked);
  CHECK(run.macs == 1'000'000'000'000'000);
  CHECK(run.utilization > 0.99);
  CHECK(run.utilization < 1);
  CHECK(run_matmul({1000000, 1000000, 1000000, 1, 1}).cycles == 1'000'000'000'000'000'000);
  MatmulRequest traced{200, 200, 200};
  traced.trace = true;
  CHECK_THROWS_AS(run_matmul(traced), fa::InputError);
}

TEST_CASE("what is not ticked is counted as ticking would") {
  std::mt19937 random(6);
  for (int i = 0; i < 20; ++i) {  // too large to tick, but with few enough tiles to list
    MatmulRequest r{1 + below(random, 900), 40000 + below(random, 9000),
                    20000 + below(random, 9000)};
    r.rows = 200 + below(random, 300);
    r.cols = 200 + below(random, 300);
    r.double_buffer = i % 2;
    const MatmulRun run = run_matmul(r);
    REQUIRE_FALSE(run.ticked);
    std::vector<Tile> tiles;
    for (std::int64_t n = 0; n < r.n; n += r.cols) {
      for (std::int64_t k = 0; k < r.k; k += r.rows) {
        tiles.push_back({r.m, std::min(r.rows, r.k - k), std::min(r.cols, r.n - n)});
      }
    }
    REQUIRE(run.cycles == tile_cycles(tiles, r.double_buffer));
    REQUIRE(run.tiles == static_cast<std::int64_t>(tiles.size()));
  }
}

TEST_CASE("the trace has every multiplication once, with its sum") {
  for (const Dataflow dataflow : {Dataflow::kWeight, Dataflow::kOutput}) {
    MatmulRequest r{4, 5, 3, 2, 2};
    r.dataflow = dataflow;
    r.trace = true;
    const MatmulRun run = run_matmul(r);
    std::set<std::string> met;
    std::int64_t cells = 0;
    for (const CycleStep& step : run.trace) {
      for (const CellStep& cell : step.cells) {
        ++cells;
        met.insert(cell.a + "·" + cell.b);
        const int i = cell.a[1] - '0', k = cell.a[2] - '0', j = cell.b[2] - '0';
        REQUIRE(cell.b[1] - '0' == k);
        REQUIRE(cell.after == cell.before + run.a(i, k) * run.b(k, j));
      }
    }
    CHECK(cells == 4 * 5 * 3);
    CHECK(met.size() == 4 * 5 * 3);
    CHECK(run.trace.back().cycle == run.cycles - 1);
  }
}

TEST_CASE("no-stagger: a sum takes its terms from a diagonal of A, and the array is done early") {
  std::mt19937 random(5);
  for (int i = 0; i < 50; ++i) {
    const int m = 1 + below(random, 9), k = 2 + below(random, 8), n = 1 + below(random, 9);
    const auto a = random_digits(m, k, random()), b = random_digits(k, n, random());
    const auto run = run_weight(a, b, kNoStagger);
    CHECK(run.cycles == m + n - 1);
    for (int row = 0; row < m; ++row) {
      for (int col = 0; col < n; ++col) {
        double sum = 0;  // the sum that leaves with A[row][K − 1] used A[row − 1][K − 2] above, …
        for (int t = 0; t < k; ++t) {
          if (row - (k - 1 - t) >= 0) sum += a(row - (k - 1 - t), t) * b(t, col);
        }
        REQUIRE(run.C[0](row, col) == sum);
      }
    }
  }
  const auto a = random_digits(4, 3, 1), b = random_digits(3, 4, 2);
  const auto expected = plain_product(a, b), got = accumulate(a, b, kNoStagger, kNobody).C[0];
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 4;
         ++i) {  // i cycles from above, j from the left, so only equal ones are right
      if (i == j) CHECK(got(i, j) == expected(i, j));
      if (i != j) CHECK(got(i, j) < expected(i, j));
    }
  }
}

TEST_CASE("weights-swapped-early: rows of A that are still in the array meet the next weights") {
  std::vector<Product<Named>> products;
  for (int p = 0; p < 2; ++p) {
    products.push_back({named(random_digits(8, 3, 1), p ? "c" : "a"),
                        named(random_digits(3, 3, 2), p ? "d" : "b")});
  }
  const auto run = stream(products, kSwappedEarly, kNobody);
  for (int m = 0; m < 8; ++m) {
    for (int n = 0; n < 3; ++n) {
      std::string expected;
      for (int k = 0; k < 3;
           ++k) {  // a[m][k] is in cell (k, n) in cycle m + k + n; swap in cycle 8
        const bool early = m + k + n >= 8;
        expected += (k ? " + " : "") + entry_name("a", m, k, false) + "·" +
                    entry_name(early ? "d" : "b", k, n, false);
      }
      CHECK(run.C[0](m, n).name == expected);
    }
  }
  const auto single = stream(std::vector{products[0]}, kSwappedEarly, kNobody);
  CHECK(single.C[0](7, 2).name == "a70·b02 + a71·b12 + a72·b22");  // there are no next weights
}

TEST_CASE("drain-forgotten: what is still under way is missing") {
  const auto a = random_digits(6, 4, 1), b = random_digits(4, 3, 2);
  const auto expected = plain_product(a, b);
  const auto run = run_weight(a, b, kDrainForgotten);
  CHECK(run.cycles == 6 + 4 - 1);
  for (int m = 0; m < 6; ++m) {
    for (int n = 0; n < 3; ++n) {
      CHECK(std::isnan(run.C[0](m, n)) == (m + 3 + n > 8));
      if (m + 3 + n <= 8) CHECK(run.C[0](m, n) == expected(m, n));
    }
  }
  const auto partial = accumulate(a, b, kDrainForgotten, kNobody).C[0];
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 3; ++j) {
      double sum = 0;
      for (int k = 0; k < 4 && k + i + j <= 8; ++k) sum += a(i, k) * b(k, j);
      CHECK(partial(i, j) == sum);
    }
  }
}
