#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <how_many_splits.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  double efficiency(int blocks, int multiprocessors) const {
    const double n = static_cast<double>(blocks) / multiprocessors;
    const double takes = is("waves-rounded-down")         ? std::floor(n)
                         : is("waves-rounded-to-nearest") ? std::round(n)
                         : is("one-wave-too-many")        ? std::floor(n) + 1
                         : is("waves-not-rounded")        ? 1
                                                          : std::ceil(n);
    if (is("divided-as-whole-numbers")) {
      const int whole = blocks / multiprocessors;
      return whole == 0 ? std::nan("") : 1;
    }
    return is("efficiency-upside-down") ? takes / n : n / takes;
  }
  int how_many_splits(const Work& work) const {
    const double part = static_cast<double>(work.blocks) / work.multiprocessors;
    const bool full = is("more-than-eighty")     ? part > FULL_ENOUGH
                      : is("one-wave")           ? part >= 1
                      : is("more-than-one-wave") ? part > 1
                                                 : part >= FULL_ENOUGH;
    if (full && !is("full-machine-split")) return 1;
    const auto up = [](int a, int b) { return (a + b - 1) / b; };
    const int count = is("tiles-rounded-down")  ? work.keys / work.block_kv
                      : is("one-tile-too-many") ? work.keys / work.block_kv + 1
                      : is("capacity-for-keys") ? up(work.capacity, work.block_kv)
                      : is("keys-for-tiles")    ? work.keys
                                                : up(work.keys, work.block_kv);
    int most = 100000;
    if (!is("more-splits-than-allowed")) most = std::min(most, MOST_SPLITS);
    if (!is("more-splits-than-multiprocessors")) most = std::min(most, work.multiprocessors);
    if (!is("beyond-tiles")) most = std::min(most, count);
    if (is("last-candidate-missed")) --most;
    if (is("machine-filled-once"))
      return std::max(1, std::min(most, work.multiprocessors / work.blocks));
    const auto is_same = [&](int splits) {
      if (is("last-of-equal-splits")) return up(count, splits) == up(count, splits + 1);
      return splits > 1 && up(count, splits) == up(count, splits - 1);
    };
    const auto efficiency_of = [&](int splits, bool skips) {
      if (skips && is_same(splits)) return 0.0;
      return efficiency(is("blocks-forgotten") ? splits : work.blocks * splits,
                        work.multiprocessors);
    };
    double best = 0;
    int best_at = 1;
    for (int splits = is.integer("from", 1); splits <= most; ++splits) {
      const double here =
          efficiency_of(splits, !is("equal-splits-counted") && !is("only-when-taken"));
      if (here > best || (is("last-best") && here >= best)) best = here, best_at = splits;
    }
    if (is("best") || is("last-best")) return best_at;
    const double enough =
        is("absolute") || is("absolute-else-best") ? GOOD_ENOUGH : GOOD_ENOUGH * best;
    int found = is("absolute-else-best") ? best_at : 1;
    for (int splits = is.integer("from", 1); splits <= most; ++splits) {
      if (!(efficiency_of(splits, !is("equal-splits-counted") && !is("only-when-best")) >= enough))
        continue;
      found = splits;
      if (!is("largest-for-smallest")) break;
    }
    return found;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  double efficiency(int blocks, int multiprocessors) const {
    return ::efficiency(blocks, multiprocessors);
  }
  int how_many_splits(const Work& work) const { return ::how_many_splits(work); }
};

static const exercise::Table MISTAKES(R"(
waves-rounded-down
  the waves are rounded down. Half a wave takes as long as a whole one: up
waves-rounded-to-nearest
  the waves are rounded to the nearest whole number. A partial wave takes as long as a full one:
  round up
one-wave-too-many
  waves + 1 is one too many if they are whole: round up
waves-not-rounded
  these are the waves. Divide them by the waves that they take, so that the result is never above 1
divided-as-whole-numbers
  blocks / multiprocessors is a division of whole numbers and drops the fraction: convert one of
  them to double first
efficiency-upside-down
  this is waves taken / waves. The part that is busy is the other way round
more-than-eighty
  step 1 requires more than 80 %. Exactly 80 % is enough
fuller-machine-asked-for: one-wave; more-than-one-wave
  step 1 asks for 85 %, or for a whole wave. 80 % of the multiprocessors are enough not to split
full-machine-split
  a machine that is 80 % full was split: step 1 is missing
tiles-rounded-down
  the tiles were rounded down. The last keys are a tile too
one-tile-too-many
  keys / block_kv + 1 is one tile too many if nothing is left over
capacity-for-keys
  the tiles are those that the cache has room for, and most splits have no key. Count the keys that
  the sequence has
keys-for-tiles
  keys were taken for tiles. A split has whole tiles of block_kv keys
more-splits-than-tiles: beyond-tiles equal-splits-counted
  there are more splits than tiles, so some have no key. And numbers with equally long splits are
  candidates
more-splits-than-allowed
  there are more than MOST_SPLITS, or the best that was looked for is beyond them
more-splits-than-multiprocessors
  there are more candidates than multiprocessors
last-candidate-missed
  the largest candidate was not looked at: splits <= most
equal-splits-counted
  a number whose longest split is as long as that of the number before it was a candidate
equal-splits-skipped-in-one-loop: only-when-best; only-when-taken
  numbers that are no candidates were left out of one of the two loops. A best that cannot be taken
  must not count, and neither may be taken
last-of-equal-splits
  where several numbers have equally long longest splits, the last was kept. The first needs fewer
  blocks
best-for-smallest: best; last-best
  this is the best efficiency. Take the smallest number that reaches 85 % of it, more splits cost
  memory traffic
largest-for-smallest
  this is the largest number that is good enough. The smallest is asked for
eighty-five-of-the-machine: absolute; absolute-else-best
  85 % is not of the machine: it is of the best efficiency that a candidate has
machine-filled-once
  this is multiprocessors / blocks. With several waves other numbers may be better
one-not-a-candidate: from=2
  the search begins at 2 splits. Not to split is a candidate, too
blocks-forgotten
  the efficiency is that of `splits` blocks. There are blocks * splits
)");

static void check_efficiency(const char* name, int multiprocessors,
                             const std::vector<int>& blocks) {
  exercise::check_output<Way, Answer>({name, 0, 1e-9}, MISTAKES, [&](const auto& way) {
    Numbers result;
    for (const int number : blocks) result.push_back(way.efficiency(number, multiprocessors));
    return result;
  });
}

static void check_splits(const Work& work) {
  exercise::check_output<Way, Answer>({"splits", 0, 1e-9}, MISTAKES, [&](const auto& way) {
    return Numbers{double(way.how_many_splits(work))};
  });
}

TEST_CASE("efficiency of 48, 96, 144, … 432 blocks on 108 multiprocessors") {
  check_efficiency("busy", 108, {48, 96, 144, 192, 240, 288, 336, 384, 432});
}
TEST_CASE("efficiency of 1, 131, 132, 133 and 264 blocks on 132 multiprocessors") {
  check_efficiency("busy", 132, {1, 131, 132, 133, 264});
}
TEST_CASE("the README's 48 blocks on 108, 64000 keys in tiles of 64") {
  check_splits({48, 108, 64000, 64000, 64});
}
TEST_CASE("1 block on 132, 65536 keys in tiles of 64") { check_splits({1, 132, 65536, 65536, 64}); }
TEST_CASE("8 blocks on 132, 65536 keys in tiles of 64") {
  check_splits({8, 132, 65536, 65536, 64});
}
TEST_CASE("8 blocks on 132, 4096 keys in tiles of 64: 13, 14 and 15 have equally long splits") {
  check_splits({8, 132, 4096, 131072, 64});
}
TEST_CASE("8 blocks on 132, 700 keys of 131072, in tiles of 64") {
  check_splits({8, 132, 700, 131072, 64});
}
TEST_CASE("1 block on 132, 256 keys in tiles of 64") { check_splits({1, 132, 256, 4096, 64}); }
TEST_CASE("1 block on 132, 257 keys in tiles of 64") { check_splits({1, 132, 257, 4096, 64}); }
TEST_CASE("1 block on 132, 1 key in tiles of 64") { check_splits({1, 132, 1, 256, 64}); }
TEST_CASE("1 block on 132, no key") { check_splits({1, 132, 0, 256, 64}); }
TEST_CASE("1 block on 264, 10 million keys: 128 at most") {
  check_splits({1, 264, 10000000, 10000000, 128});
}
TEST_CASE("3 blocks on 7, a long sequence") { check_splits({3, 7, 100000, 100000, 64}); }
TEST_CASE("1 block on 20, 40 tiles") { check_splits({1, 20, 40 * 64, 40 * 64, 64}); }
TEST_CASE("67 blocks on 132, a long sequence") { check_splits({67, 132, 65536, 65536, 64}); }
TEST_CASE("4 blocks on 5: just 80 %") { check_splits({4, 5, 65536, 65536, 64}); }
TEST_CASE("105 blocks on 132: not quite 80 %") { check_splits({105, 132, 65536, 65536, 64}); }
TEST_CASE("106, 112, 132 and 133 blocks on 132") {
  for (const int blocks : {106, 112, 132, 133}) check_splits({blocks, 132, 65536, 65536, 64});
}
TEST_CASE("all small machines and sequences") {
  exercise::check_output<Way, Answer>({"splits", 0, 1e-9}, MISTAKES, [&](const auto& way) {
    Numbers result;
    for (int multiprocessors = 1; multiprocessors <= 12; ++multiprocessors)
      for (int blocks = 1; blocks <= multiprocessors; ++blocks)
        for (int keys = 0; keys <= 120; keys += 5)
          result.push_back(way.how_many_splits({blocks, multiprocessors, keys, 128, 4}));
    return result;
  });
}
