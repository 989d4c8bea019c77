#include <doctest/doctest.h>

#include <wavefronts.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

static Numbers right_products(int queries, int head_dim) {
  const double q = queries, d = head_dim;
  return {q, d, 0, q, d, 0, d, q, 1, d, q, 1, q * d / 128, 128, 0};
}

static void check_product(const Product& p) {
  const double wgmmas = p.k / 16;
  const double A = p.A_in_registers ? 0 : 16 * wgmmas, B = p.n / 4 * wgmmas;
  exercise::check_output(
      {"wavefronts", 0, 0}, {static_cast<double>(wavefronts(p))}, {A + B},
      {{"a-always-read", {16 * wgmmas + B}, "an A in registers was counted. Its wgmma read only B"},
       {"b-forgotten", {A}, "B is missing. It is always in shared memory"},
       {"one-wgmma",
        {A / wgmmas + B / wgmmas},
        "this is the traffic of one wgmma. The product has k / 16 of them"},
       {"elements-for-bytes",
        {(A + B) / 2},
        "elements were counted as bytes. A bf16 has two bytes"},
       {"wavefront-of-32-bytes",
        {(A + B) * 4},
        "a wavefront was taken for 32 bytes. All 32 banks together deliver 128"},
       {"accumulators-counted",
        {A + B + p.n * 2},
        "C was counted. The accumulators are registers and stay there"}});
  exercise::check_output(
      {"tensor_cycles", 0, 0}, {static_cast<double>(tensor_cycles(p))}, {p.n / 2 * wgmmas},
      {{"operations-for-multiply-adds",
        {p.n * wgmmas},
        "a multiply-add was counted as two operations. The rate is given in multiply-adds"},
       {"cycles-of-one-wgmma",
        {p.n / 2.0},
        "these are the cycles of one wgmma. The product has k / 16"}});
}

static void check_products(int queries, int head_dim) {
  const Numbers right = right_products(queries, head_dim);
  const auto changed = [&](const std::vector<std::pair<int, double>>& changes) {
    Numbers numbers = right;
    for (const auto& [at, value] : changes) numbers[at] = value;
    return numbers;
  };
  const double q = queries, d = head_dim;
  Numbers got;
  for (const Product& p : products(queries, head_dim))
    got.insert(got.end(), {static_cast<double>(p.n), static_cast<double>(p.k),
                           static_cast<double>(p.A_in_registers)});
  const std::vector<std::string> names = {"S", "dP", "dV", "dK", "dQ"};
  exercise::Output output{"product", 3, 0, {"n", "k", "A_in_registers"}};
  exercise::check_output(
      output, got, right,
      {{"dq-over-own-keys", changed({{13, 64}}),
        "dQ sums over the keys of one warpgroup. It needs all 128 of the block"},
       {"dq-not-shared", changed({{12, q * d / 64}}),
        "one warpgroup computes all of dQ. Each of the two computes a half"},
       {"dq-from-registers", changed({{14, 1}}),
        "dQ takes dS from registers. Half of that dS is in the other warpgroup"},
       {"sum-over-the-head", changed({{6, q}, {7, d}, {9, q}, {10, d}}),
        "dV and dK sum over the head size. They have head_dim columns, and sum over the queries"},
       {"weights-from-shared", changed({{8, 0}, {11, 0}}),
        "dV and dK take P and dS from shared memory. A warpgroup has them in its accumulators"},
       {"keys-in-registers", changed({{2, 1}, {5, 1}}),
        "S and dP take K and V from registers, which have no room for them"}});
}

TEST_CASE("A in shared memory") {
  check_product({64, 128, false});
  check_product({128, 64, false});
}
TEST_CASE("A in registers") {
  check_product({128, 64, true});
  check_product({64, 16, true});
}
TEST_CASE("64 queries, head size 128") { check_products(64, 128); }
TEST_CASE("128 queries, head size 64") { check_products(128, 64); }
TEST_CASE("64 queries, head size 64") { check_products(64, 64); }

// The README's numbers, from the products that this test takes for right.
TEST_CASE("two warpgroups") {
  const Numbers all = right_products(64, 128);
  double read = 0, cycles = 0;
  for (size_t at = 0; at < all.size(); at += 3) {
    read += 2 * all[at + 1] / 16 * (all[at] / 4 + (all[at + 2] > 0 ? 0 : 16));
    cycles += 2 * all[at + 1] / 16 * all[at] / 2;
  }
  CHECK(read == 2048);
  CHECK(cycles == 2560);
}
