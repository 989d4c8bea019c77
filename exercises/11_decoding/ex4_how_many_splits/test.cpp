#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <how_many_splits.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The functions as people write them: right as they stand here, each mistake is a change to them.
struct Way {
  enum Waves { kUp, kDown, kNearest, kPlusOne, kNotRounded, kWhole, kUpsideDown } waves = kUp;
  enum Full { kEighty, kMoreThanEighty, kOneWave, kMoreThanOneWave, kNever } full = kEighty;
  enum Tiles { kOfKeys, kRoundedDown, kOneMore, kOfCapacity, kKeys } tiles = kOfKeys;
  bool up_to_tiles = true, up_to_most = true, up_to_multiprocessors = true, most_excluded = false;
  enum Same { kSkipped, kCounted, kLater, kOnlyWhenBest, kOnlyWhenTaken } same = kSkipped;
  enum Choice {
    kSmallest,
    kBest,
    kLastBest,
    kLargest,
    kAbsolute,
    kAbsoluteElseBest,
    kFill
  } choice = kSmallest;
  int from = 1;
  bool blocks_forgotten = false;

  double efficiency(int blocks, int multiprocessors) const {
    const double n = static_cast<double>(blocks) / multiprocessors;
    const double takes = waves == kDown         ? std::floor(n)
                         : waves == kNearest    ? std::round(n)
                         : waves == kPlusOne    ? std::floor(n) + 1
                         : waves == kNotRounded ? 1
                                                : std::ceil(n);
    if (waves == kWhole) {
      const int whole = blocks / multiprocessors;
      return whole == 0 ? std::nan("") : 1;
    }
    return waves == kUpsideDown ? takes / n : n / takes;
  }
  int how_many_splits(const Work& work) const {
    const double part = static_cast<double>(work.blocks) / work.multiprocessors;
    if (full == kEighty && part >= FULL_ENOUGH) return 1;
    if (full == kMoreThanEighty && part > FULL_ENOUGH) return 1;
    if (full == kOneWave && part >= 1) return 1;
    if (full == kMoreThanOneWave && part > 1) return 1;
    const auto up = [](int a, int b) { return (a + b - 1) / b; };
    const int count = tiles == kRoundedDown  ? work.keys / work.block_kv
                      : tiles == kOneMore    ? work.keys / work.block_kv + 1
                      : tiles == kOfCapacity ? up(work.capacity, work.block_kv)
                      : tiles == kKeys       ? work.keys
                                             : up(work.keys, work.block_kv);
    int most = 100000;
    if (up_to_most) most = std::min(most, MOST_SPLITS);
    if (up_to_multiprocessors) most = std::min(most, work.multiprocessors);
    if (up_to_tiles) most = std::min(most, count);
    if (most_excluded) --most;
    if (choice == kFill) return std::max(1, std::min(most, work.multiprocessors / work.blocks));
    const auto is_same = [&](int splits) {
      if (same == kLater) return up(count, splits) == up(count, splits + 1);
      return splits > 1 && up(count, splits) == up(count, splits - 1);
    };
    const auto efficiency_of = [&](int splits, bool skips) {
      if (skips && is_same(splits)) return 0.0;
      return efficiency(blocks_forgotten ? splits : work.blocks * splits, work.multiprocessors);
    };
    double best = 0;
    int best_at = 1;
    for (int splits = from; splits <= most; ++splits) {
      const double here = efficiency_of(splits, same != kCounted && same != kOnlyWhenTaken);
      if (here > best || (choice == kLastBest && here >= best)) best = here, best_at = splits;
    }
    if (choice == kBest || choice == kLastBest) return best_at;
    const double enough =
        choice == kAbsolute || choice == kAbsoluteElseBest ? GOOD_ENOUGH : GOOD_ENOUGH * best;
    int found = choice == kAbsoluteElseBest ? best_at : 1;
    for (int splits = from; splits <= most; ++splits) {
      if (!(efficiency_of(splits, same != kCounted && same != kOnlyWhenBest) >= enough)) continue;
      found = splits;
      if (choice != kLargest) break;
    }
    return found;
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  double efficiency(int blocks, int multiprocessors) const {
    return ::efficiency(blocks, multiprocessors);
  }
  int how_many_splits(const Work& work) const { return ::how_many_splits(work); }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const best =
      "this is the best efficiency; take the smallest number that reaches 85 % of it, more splits "
      "cost memory traffic";
  static const char* const absolute =
      "85 % is not of the machine: it is of the best efficiency that a candidate has";
  static const char* const full =
      "step 1 asks for 85 %, or for a whole wave; 80 % of the multiprocessors are enough not to "
      "split";
  static const char* const same =
      "numbers that are no candidates were left out of one of the two loops; a best that cannot be "
      "taken must not count, and neither may be taken";
  static const std::vector<Known> known = {
      {"waves-rounded-down",
       {.waves = W::kDown},
       "the waves are rounded down; half a wave takes as long as a whole one: up"},
      {"waves-rounded-to-nearest",
       {.waves = W::kNearest},
       "the waves are rounded to the nearest; what is begun takes a wave: up"},
      {"one-wave-too-many",
       {.waves = W::kPlusOne},
       "waves + 1 is one too many if they are whole: round up"},
      {"waves-not-rounded",
       {.waves = W::kNotRounded},
       "these are the waves; divided by the waves that they take, so never above 1"},
      {"divided-as-whole-numbers",
       {.waves = W::kWhole},
       "blocks / multiprocessors is a division of whole numbers and drops the fraction: convert "
       "one of them to double first"},
      {"efficiency-upside-down",
       {.waves = W::kUpsideDown},
       "this is waves taken / waves; the part that is busy is the other way round"},
      {"more-than-eighty",
       {.full = W::kMoreThanEighty},
       "step 1 asks for more than 80 %; just 80 % are enough"},
      {"fuller-machine-asked-for", {.full = W::kOneWave}, full},
      {"fuller-machine-asked-for", {.full = W::kMoreThanOneWave}, full},
      {"full-machine-split",
       {.full = W::kNever},
       "a machine that is 80 % full was split: step 1 is missing"},
      {"tiles-rounded-down",
       {.tiles = W::kRoundedDown},
       "the tiles were rounded down; the last keys are a tile too"},
      {"one-tile-too-many",
       {.tiles = W::kOneMore},
       "keys / block_kv + 1 is one tile too many if nothing is left over"},
      {"capacity-for-keys",
       {.tiles = W::kOfCapacity},
       "the tiles are those that the cache has room for, and most splits have no key; count the "
       "keys that the sequence has"},
      {"keys-for-tiles",
       {.tiles = W::kKeys},
       "keys were taken for tiles; a split has whole tiles of block_kv keys"},
      {"more-splits-than-tiles",
       {.up_to_tiles = false, .same = W::kCounted},
       "there are more splits than tiles, so some have no key; and numbers with equally long "
       "splits are candidates"},
      {"more-splits-than-allowed",
       {.up_to_most = false},
       "there are more than MOST_SPLITS, or the best that was looked for is beyond them"},
      {"more-splits-than-multiprocessors",
       {.up_to_multiprocessors = false},
       "there are more candidates than multiprocessors"},
      {"last-candidate-missed",
       {.most_excluded = true},
       "the largest candidate was not looked at: splits <= most"},
      {"equal-splits-counted",
       {.same = W::kCounted},
       "a number whose longest split is as long as that of the number before it was a candidate"},
      {"equal-splits-skipped-in-one-loop", {.same = W::kOnlyWhenBest}, same},
      {"equal-splits-skipped-in-one-loop", {.same = W::kOnlyWhenTaken}, same},
      {"last-of-equal-splits",
       {.same = W::kLater},
       "of numbers whose longest splits are equally long the last was kept; the first does it with "
       "fewer blocks"},
      {"best-for-smallest", {.choice = W::kBest}, best},
      {"best-for-smallest", {.choice = W::kLastBest}, best},
      {"largest-for-smallest",
       {.choice = W::kLargest},
       "this is the largest number that is good enough; the smallest is asked for"},
      {"eighty-five-of-the-machine", {.choice = W::kAbsolute}, absolute},
      {"eighty-five-of-the-machine", {.choice = W::kAbsoluteElseBest}, absolute},
      {"machine-filled-once",
       {.choice = W::kFill},
       "this is multiprocessors / blocks; with several waves other numbers may be better"},
      {"one-not-a-candidate",
       {.from = 2},
       "the search begins at 2 splits; not to split is a candidate, too"},
      {"blocks-forgotten",
       {.blocks_forgotten = true},
       "the efficiency is that of `splits` blocks; there are blocks * splits"},
  };
  return known;
}

// run(way) for what people write and for the answer.
template <class Run>
static void check_numbers(const char* name, Run run) {
  const auto mistakes = exercise::mistakes(all_known(), [&](const Way& way) { return run(way); });
  exercise::check_output({name, 0, 1e-9}, run(Answer{}), run(Way{}), mistakes);
}

static void check_efficiency(const char* name, int multiprocessors,
                             const std::vector<int>& blocks) {
  check_numbers(name, [&](const auto& way) {
    Numbers result;
    for (const int number : blocks) result.push_back(way.efficiency(number, multiprocessors));
    return result;
  });
}

static void check_splits(const Work& work) {
  check_numbers("splits",
                [&](const auto& way) { return Numbers{double(way.how_many_splits(work))}; });
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
  check_numbers("splits", [&](const auto& way) {
    Numbers result;
    for (int multiprocessors = 1; multiprocessors <= 12; ++multiprocessors)
      for (int blocks = 1; blocks <= multiprocessors; ++blocks)
        for (int keys = 0; keys <= 120; keys += 5)
          result.push_back(way.how_many_splits({blocks, multiprocessors, keys, 128, 4}));
    return result;
  });
}
