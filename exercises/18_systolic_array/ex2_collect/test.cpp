#include <doctest/doctest.h>

#include <collect.hpp>
#include <string>

#include "chapters/18_systolic_array/weight_stationary.hpp"
#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The values below each column of the real array in each cycle, with a marker where there is none.
static std::vector<std::vector<double>> outlet(int M, int K, int N) {
  ch18::Matrix<double> a(M, K), b(K, N);
  for (int m = 0; m < M; ++m) {
    for (int k = 0; k < K; ++k) a(m, k) = 10 * m + k + 1;
  }
  for (int k = 0; k < K; ++k) {
    for (int n = 0; n < N; ++n) b(k, n) = k == 0 ? n + 1 : 1;
  }
  std::vector<std::vector<double>> below;
  ch18::stream(std::vector<ch18::Product<double>>{{a, b}}, 0, [&](auto, auto& array) {
    auto& now = below.emplace_back(N, -1000.0 - static_cast<double>(below.size()));
    for (int n = 0; n < N; ++n) {
      const auto& last = array.cells()(K - 1, n);
      if (last.activation.here) now[n] = last.sum;
    }
  });
  while (below.size() < static_cast<size_t>(M + 2 * K + N)) {  // some more that mean nothing
    below.emplace_back(N, -1000.0 - static_cast<double>(below.size()));
  }
  return below;
}

static void check_collect(int M, int K, int N) {
  const auto below = outlet(M, K, N);
  const auto by = [&](auto row, int last_cycle, int rows) {
    Results C(M, N);
    for (int cycle = 0; cycle < static_cast<int>(below.size()) && cycle <= last_cycle; ++cycle) {
      for (int n = 0; n < N; ++n) {
        const int m = row(cycle, n);
        if (m >= 0 && m < rows) C.put(m, n, below[cycle][n]);
      }
    }
    return C.values;
  };
  const auto right = [&](int cycle, int n) { return cycle - (K - 1) - n; };
  constexpr int kAll = 1 << 20;
  Results C(M, N);
  for (int cycle = 0; cycle < static_cast<int>(below.size()); ++cycle) {
    collect(C, cycle, below[cycle], K);
  }
  exercise::check(C.outside == 0,
                  "C[" + std::to_string(C.first_outside[0]) + "][" +
                      std::to_string(C.first_outside[1]) + "] does not exist: C is " +
                      std::to_string(M) + " × " + std::to_string(N),
                  {{"no-limits", C.values == by(right, kAll, M),
                    "a number that leaves a column before its first result, or after its last, is "
                    "no result. m must be from 0 to M - 1"}});
  exercise::check_output(
      {"C", N, 0}, C.values, by(right, kAll, M),
      {{"all-columns-at-once", by([&](int cycle, int) { return cycle - (K - 1); }, kAll, M),
        "a row of C does not leave in one cycle: column n leaves n cycles after column 0"},
       {"way-down-forgotten", by([&](int cycle, int n) { return cycle - n; }, kAll, M),
        "a sum takes K - 1 cycles from the first row to the last"},
       {"one-row-too-many", by([&](int cycle, int n) { return cycle - K - n; }, kAll, M),
        "from row 0 to row K - 1 it is K - 1 steps, not K"},
       {"drain-forgotten", by(right, M + K - 2, M),
        "the last results are missing: after the last number of A has entered, N - 1 more cycles "
        "bring results"},
       {"last-row-forgotten", by(right, kAll, M - 1), "the last row of C, M - 1, is a row too"},
       {"first-row-lost",
        by([&](int cycle, int n) { return right(cycle, n) > 0 ? right(cycle, n) : -1; }, kAll, M),
        "row 0 of C stays empty: m = 0 is a row, too"},
       {"slanted-the-other-way", by([&](int cycle, int n) { return cycle - (K - 1) + n; }, kAll, M),
        "the columns on the right leave later, not earlier"}});
}

TEST_CASE("3 × 3 results, K = 2") { check_collect(3, 2, 3); }
TEST_CASE("wide: 2 × 5 results, K = 4") { check_collect(2, 4, 5); }
TEST_CASE("long: 7 × 2 results, K = 3") { check_collect(7, 3, 2); }
TEST_CASE("one row, one column of the array each") { check_collect(1, 2, 4); }
