// The cycle model gives the article's table to the last cycle, and properties of any shape.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "attention_model.hpp"
#include "matmul.hpp"
#include "roofline.hpp"

using namespace ch18;

namespace {

constexpr Accounting kAll[] = {Accounting::kSeed, Accounting::kArray, Accounting::kPipelined,
                               Accounting::kOverlapped};

AttentionShape shape_of(Algorithm algorithm, std::int64_t block) {
  return {algorithm, 512, 64, block, true};
}

}  // namespace

TEST_CASE("the article's table, exactly") {
  struct Column {
    AttentionShape shape;
    std::int64_t total, mxu, vpu;
    const char* utilization;
  };
  for (const auto& [shape, total, mxu, vpu, utilization] :
       {Column{shape_of(Algorithm::kFlash, 64), 24556, 13680, 10876, "8.4"},
        Column{shape_of(Algorithm::kFlash, 128), 16936, 6360, 10576, "20.1"},
        Column{shape_of(Algorithm::kStandard, 128), 20604, 2172, 18432, "94.3"}}) {
    const AttentionCost cost = attention_cost(shape, Accounting::kSeed);
    CHECK(cost.total_cycles == total);
    CHECK(cost.mxu_cycles == mxu);
    CHECK(cost.vpu_cycles == vpu);
    char text[16];
    std::snprintf(text, sizeof text, "%.1f", 100 * cost.utilization);
    CHECK(std::string(text) == utilization);
  }
}

TEST_CASE("the array that is there: 5616 cycles and 36.5 %, flash as before") {
  const auto standard = attention_cost(shape_of(Algorithm::kStandard, 128), Accounting::kArray);
  CHECK(standard.mxu_cycles == 5616);
  CHECK(standard.utilization == doctest::Approx(2048.0 / 5616));
  CHECK(attention_cost(shape_of(Algorithm::kFlash, 128), Accounting::kArray).mxu_cycles == 6360);
  CHECK(attention_cost(shape_of(Algorithm::kFlash, 64), Accounting::kArray).mxu_cycles == 13680);
}

TEST_CASE("pipelined: M a tile and one drain; overlapped: the larger of the two") {
  const auto flash = shape_of(Algorithm::kFlash, 128);
  const auto pipelined = attention_cost(flash, Accounting::kPipelined);
  CHECK(pipelined.mxu_cycles == 10 * (128 + 128) + 128 + 64 - 2);
  CHECK(pipelined.total_cycles == pipelined.mxu_cycles + 10576);
  CHECK(attention_cost(flash, Accounting::kOverlapped).total_cycles == 10576);
}

TEST_CASE("what the model charges for a product is what ticking it costs") {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % n); };
  for (int i = 0; i < 40; ++i) {
    const Machine machine{1 + below(9), 1 + below(9)};
    const std::int64_t n = 1 + below(30), dim = 1 + below(20);
    const AttentionShape whole{Algorithm::kStandard, n, dim, 1, false};
    const auto array = attention_cost(whole, Accounting::kArray, machine);
    MatmulRequest scores{n, dim, n, machine.rows, machine.cols};
    MatmulRequest values{n, n, dim, machine.rows, machine.cols};
    REQUIRE(array.matrix[0].cycles == run_matmul(scores).cycles);
    REQUIRE(array.matrix[1].cycles == run_matmul(values).cycles);
    scores.double_buffer = true;
    const std::int64_t drain = std::min(dim, machine.rows) + std::min(n, machine.cols) - 2;
    const auto pipelined = attention_cost(whole, Accounting::kPipelined, machine);
    // The model charges every tile max(M, K), including loading for the first, and full-height
    // drains.
    const std::int64_t ticked = run_matmul(scores).cycles;
    REQUIRE(pipelined.matrix[0].cycles + drain >= ticked);
    REQUIRE(pipelined.matrix[0].cycles + drain <= ticked + machine.rows + machine.cols);
  }
}

TEST_CASE("any shape, machine and account: counts are positive, shares between 0 and 1") {
  std::mt19937 random(2);
  const auto up_to = [&](std::int64_t n) { return 1 + static_cast<std::int64_t>(random() % n); };
  for (int i = 0; i < 3000; ++i) {
    const std::int64_t longest = i % 2 ? 300 : 100000;
    const AttentionShape shape{i % 3 ? Algorithm::kFlash : Algorithm::kStandard, up_to(longest),
                               up_to(300), up_to(longest), random() % 2 == 0};
    const Machine machine{up_to(256), up_to(256), up_to(4), up_to(2000)};
    AttentionCost last;
    for (const Accounting accounting : kAll) {
      const AttentionCost cost = attention_cost(shape, accounting, machine);
      REQUIRE(cost.mxu_cycles > 0);
      REQUIRE(cost.vpu_cycles > 0);
      REQUIRE(cost.utilization > 0);
      REQUIRE(cost.utilization <= 1);
      REQUIRE(cost.of_total > 0);
      REQUIRE(cost.of_total <= cost.utilization);
      if (accounting != Accounting::kSeed) REQUIRE(cost.busy <= 1);  // at most all cells
      REQUIRE(cost.total_cycles == (accounting == Accounting::kOverlapped
                                        ? std::max(cost.mxu_cycles, cost.vpu_cycles)
                                        : cost.mxu_cycles + cost.vpu_cycles));
      if (accounting == Accounting::kOverlapped) REQUIRE(cost.total_cycles <= last.total_cycles);
      last = cost;
    }
  }
}

TEST_CASE("tiles visited") {
  CHECK(tiles_visited({Algorithm::kFlash, 512, 64, 128, true}) == 10);
  CHECK(tiles_visited({Algorithm::kFlash, 512, 64, 128, false}) == 16);
  CHECK(tiles_visited({Algorithm::kFlash, 513, 64, 128, true}) == 15);
  CHECK(tiles_visited({Algorithm::kFlash, 1, 64, 128, true}) == 1);
}

TEST_CASE("useful work leaves out padding, and counts what the mask hides in visited tiles") {
  const AttentionShape ragged{Algorithm::kFlash, 300, 10, 128, true};
  const double pairs = 128.0 * 128 + 128.0 * 256 + 44.0 * 300;
  CHECK(attention_cost(ragged, Accounting::kSeed).useful_macs == 2 * pairs * 10);
}

TEST_CASE("more MXUs: the same work, no less than its share") {
  const auto shape = shape_of(Algorithm::kFlash, 128);
  for (const Accounting accounting : kAll) {
    const auto one = attention_cost(shape, accounting);
    const auto four = attention_cost(shape, accounting, {128, 128, 4, 128});
    CHECK(4 * (four.mxu_cycles - four.drain) >= one.mxu_cycles - one.drain);
    CHECK(four.mxu_cycles < one.mxu_cycles);
    CHECK(four.vpu_cycles == one.vpu_cycles);
  }
}

TEST_CASE("crossovers: from the vendors' figures") {
  for (const Chip& chip : chips()) {
    const Crossover c = crossover(chip, 64, 2);
    const double n = static_cast<double>(c.fits_up_to);
    CHECK(n * n * 4 <= chip.fast_bytes);
    CHECK((n + 1) * (n + 1) * 4 > chip.fast_bytes);
    CHECK(c.unfused < c.ridge);  // scores through HBM are bound by memory at any length
    CHECK(static_cast<double>(c.fused_from) / 2 >= c.ridge);
    CHECK(static_cast<double>(c.block_from) >= c.ridge);
  }
  CHECK(crossover(chips()[0], 64, 2).fits_up_to == 5792);
}

TEST_CASE("round trips") {
  const auto ways = traffic(1024, 64, 4);
  const double scores = 1024.0 * 1024 * 4, rows = 1024.0 * 64 * 4;
  CHECK(ways[2].bytes == 4 * rows);
  CHECK(ways[1].bytes == 4 * rows + 4 * scores);
  CHECK(ways[0].bytes == 4 * rows + 8 * scores);
}
