#include <doctest/doctest.h>

#include <algorithm>
#include <feed.hpp>
#include <string>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// One line for each cycle, one column for each row of the array.
template <class Rule>
static Numbers timetable(int M, int K, Rule rule) {
  Numbers table;
  for (int cycle = 0; cycle < M + 2 * K + 2; ++cycle) {
    for (int k = 0; k < K; ++k) table.push_back(rule(k, cycle));
  }
  return table;
}

static void check_feed(int M, int K) {
  const auto within = [M](int m) { return m >= 0 && m < M ? m : kNothing; };
  const auto of = [&](auto rule) { return timetable(M, K, rule); };
  // All rows of the array end before this cycle, whenever they began.
  const auto ends_at = [&](int end) {
    return of([&](int k, int cycle) { return cycle < k || cycle >= end ? kNothing : cycle - k; });
  };
  const char* const whole_feed =
      "all rows of the array end with the feed, when the last of them has had its last number. Row "
      "k ends M cycles after its own beginning: A has no row M";
  exercise::check_output(
      {"row of A, by [cycle][row of the array]", K, 0},
      of([&](int k, int cycle) { return row_of_A(k, cycle, M, K); }),
      of([&](int k, int cycle) { return within(cycle - k); }),
      {{"no-stagger", of([&](int, int cycle) { return within(cycle); }),
        "all rows start in cycle 0. The sum needs k cycles to come down to row k"},
       {"one-cycle-late", of([&](int k, int cycle) { return within(cycle - k - 1); }),
        "every row starts one cycle late: cycles count from 0, and row 0 has nothing to wait for"},
       {"one-cycle-early", of([&](int k, int cycle) { return within(cycle - k + (k > 0)); }),
        "row 1 starts with row 0, and each row below it one cycle early: row k waits k cycles"},
       {"one-cycle-early", of([&](int k, int cycle) { return within(cycle - k + 1); }),
        "every row starts one cycle early, with m = 1: row 0 of A enters in cycle k"},
       {"staggered-upwards", of([&](int k, int cycle) { return within(cycle - (K - 1 - k)); }),
        "the last row starts first. Sums go down, so row 0 must"},
       {"staggered-twice", of([&](int k, int cycle) { return within(cycle - 2 * k); }),
        "row k starts 2k cycles late. The sum takes one cycle per row"},
       {"row-minus-cycle", of([&](int k, int cycle) { return within(k - cycle); }),
        "this is k - cycle; A[m][k] enters in cycle m + k, so m = cycle - k"},
       {"zero-for-nothing", of([&](int k, int cycle) { return std::max(within(cycle - k), 0); }),
        "0 is the first row of A. Nothing is kNothing"},
       {"end-forgotten",
        of([&](int k, int cycle) { return cycle - k >= 0 ? cycle - k : kNothing; }),
        "A has M rows, and after them nothing enters"},
       {"start-forgotten",
        of([&](int k, int cycle) { return cycle - k < M ? cycle - k : kNothing; }),
        "before its first number a row gets nothing. A row of A below 0 does not exist"},
       {"fed-ahead", of([&](int k, int cycle) { return within(cycle + k); }),
        "row k is k rows of A early. It must be k rows late"},
       {"first-row-lost",
        of([&](int k, int cycle) { return cycle - k > 0 ? within(cycle - k) : kNothing; }),
        "row 0 of A never enters: m = 0 is a row, too"},
       {"one-row-too-many",
        of([&](int k, int cycle) { return cycle - k == M ? M : within(cycle - k); }),
        "A has rows 0 to M - 1. There is no row M"},
       {"begun-again", of([&](int k, int cycle) { return cycle < k ? kNothing : (cycle - k) % M; }),
        "after its last row A begins anew. It passes once, and after it nothing enters"},
       {"begun-again", of([&](int k, int cycle) { return ((cycle - k) % M + M) % M; }),
        "A comes again and again, and before its beginning, too. It passes once, and nothing "
        "enters before it and after it"},
       {"last-row-repeated",
        of([&](int k, int cycle) { return cycle < k ? kNothing : std::min(cycle - k, M - 1); }),
        "the last row of A enters again and again. After it nothing enters"},
       {"end-of-the-last-row", ends_at(M + K - 1), whole_feed},
       {"end-of-the-last-row", ends_at(M + K), whole_feed},
       {"end-of-the-last-row", ends_at(M + K - 2),
        "all rows of the array end with the feed, and that one cycle early. Row k ends M cycles "
        "after its own beginning, in cycle k + M - 1"},
       {"limited-by-k", of([&](int k, int cycle) {
          return cycle - k >= 0 && cycle - k < K ? cycle - k : kNothing;
        }),
        "m counts the rows of A: there are M of them, not K"},
       {"all-rows-end-together",
        of([&](int k, int cycle) { return cycle < M ? within(cycle - k) : kNothing; }),
        "all rows end in cycle M - 1. A row that starts k cycles late ends k cycles late"}});
}

TEST_CASE("2 rows of A, 3 rows of the array") { check_feed(2, 3); }
TEST_CASE("more rows of A than of the array") { check_feed(7, 2); }
TEST_CASE("fewer rows of A than of the array") { check_feed(1, 5); }
TEST_CASE("a square") { check_feed(4, 4); }
