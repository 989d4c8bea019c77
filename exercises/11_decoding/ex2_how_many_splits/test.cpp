#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <how_many_splits.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

struct Case {
  int blocks, machine, tiles;
};

// The rule as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Choice { kSmallest, kBest, kLargest, kBelow } choice = kSmallest;
  enum Busy { kCeil, kFloor, kWaves } busy = kCeil;
  enum Enough { kOfBest, kOfAll } enough = kOfBest;
  bool full_is_enough = true, full_only = false, more_than_80 = false, skips = true;
  bool tiles_floor = false;

  double busy_with(const Case& c, int splits) const {
    const double waves = double(c.blocks) * splits / c.machine;
    if (busy == kWaves) return waves;
    return waves / (busy == kFloor ? std::max(1.0, std::floor(waves)) : std::ceil(waves));
  }
  int operator()(const Case& c) const {
    const int full = (full_only ? 10 : 8) * c.machine;
    if (full_is_enough && (more_than_80 ? 10 * c.blocks > full : 10 * c.blocks >= full)) return 1;
    const int most = std::min({128, c.machine, c.tiles});
    const auto each = [&](int splits) {
      return tiles_floor ? c.tiles / splits : (c.tiles + splits - 1) / splits;
    };
    const auto looked_at = [&](int splits) {
      return !skips || splits == 1 || each(splits) != each(splits - 1);
    };
    double best = 0;
    for (int n = 1; n <= most; ++n)
      if (looked_at(n)) best = std::max(best, busy_with(c, n));
    const double good = 0.85 * (enough == kOfAll ? 1 : best) - 1e-9;
    int chosen = 0;
    for (int n = 1; n <= most; ++n) {
      if (!looked_at(n)) continue;
      const double here = busy_with(c, n);
      if (choice == kBelow && n > 1 && here < busy_with(c, n - 1)) return n - 1;
      if (choice == kBest ? here == best : choice == kBelow ? here == best : here >= good) {
        chosen = n;
        if (choice != kLargest) return n;
      }
    }
    return chosen == 0 ? 1 : chosen;
  }
};

static void check_all(const std::vector<Case>& cases) {
  Numbers got, expected;
  std::vector<std::string> labels;
  for (const Case& c : cases) {
    got.push_back(how_many_splits(c.blocks, c.machine, c.tiles));
    expected.push_back(Way{}(c));
    labels.push_back(std::to_string(c.blocks) + "/" + std::to_string(c.machine) + "/" +
                     std::to_string(c.tiles));
  }
  using W = Way;
  std::vector<exercise::Mistake> mistakes;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    Numbers output;
    for (const Case& c : cases) output.push_back(way(c));
    mistakes.push_back({name, output, explanation});
  };
  mistake("the-best-one", "the best number was taken; the smallest with 85 % of it is asked for",
          {.choice = W::kBest});
  mistake("the-largest-good-one", "the largest good number was taken; the smallest is asked for",
          {.choice = W::kLargest});
  mistake("first-peak",
          "the first number that is better than the next was taken: a peak of one wave; look at "
          "all first",
          {.choice = W::kBelow});
  mistake("waves-rounded-down",
          "waves were rounded down; the last wave costs as much as a full one: up",
          {.busy = W::kFloor});
  mistake(
      "more-is-better",
      "busy grows with every split: a wave that has begun is paid for whole, and there are blocks "
      "* splits blocks",
      {.busy = W::kWaves});
  mistake(
      "85-percent-of-all",
      "85 % of the whole machine was asked for; if the best number does not reach it, none does: "
      "85 % of the best",
      {.enough = W::kOfAll});
  mistake("splits-a-full-machine", "a machine of which 80 % have a block is not split",
          {.full_is_enough = false});
  mistake("full-means-all", "80 % are enough not to split; all were asked for",
          {.full_only = true});
  mistake("80-percent-not-met", "exactly 80 % are enough not to split", {.more_than_80 = true});
  mistake("same-tiles-each",
          "a number that gives each split as many tiles as one split less was not left out",
          {.skips = false});
  mistake("tiles-rounded-down",
          "the tiles of a split were rounded down; the rest needs a tile, too: up",
          {.tiles_floor = true});
  exercise::check_output(
      {"blocks/multiprocessors/tiles", static_cast<int>(cases.size()), 0, labels}, got, expected,
      mistakes);
}

TEST_CASE("the README's") { check_all({{8, 132, 1024}}); }
TEST_CASE("a machine that is full, or nearly") {
  check_all(
      {{132, 132, 64}, {140, 132, 64}, {106, 132, 64}, {105, 132, 64}, {8, 10, 64}, {7, 10, 64}});
}
TEST_CASE("few tiles") { check_all({{1, 132, 1}, {1, 132, 2}, {1, 132, 10}, {3, 20, 4}}); }
TEST_CASE("best below 85 %") { check_all({{1, 132, 8}, {2, 132, 20}}); }
TEST_CASE("one block") { check_all({{1, 132, 100000}, {1, 64, 100000}, {1, 200, 100000}}); }
TEST_CASE("every small machine") {
  std::vector<Case> cases;
  for (int machine = 1; machine <= 20; ++machine)
    for (int blocks = 1; blocks <= 2 * machine; ++blocks)
      for (const int tiles : {1, 5, 9, 40}) cases.push_back({blocks, machine, tiles});
  check_all(cases);
}
