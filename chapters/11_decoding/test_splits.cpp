// The number of splits, and the tiles in each.
#include <doctest/doctest.h>

#include <limits>

#include "splits.hpp"

using namespace ch11;

namespace {

constexpr int64_t kLargest32 = std::numeric_limits<int32_t>::max();

// FlashAttention's rule in integers. Items and multiprocessors are the same in both efficiencies
// items * splits / (multiprocessors * waves), so it compares splits / waves.
int expected_splits(int64_t items, int64_t multiprocessors, int64_t tiles) {
  if (items * 5 >= multiprocessors * 4 || items == 0) return 1;
  const auto tiles_each = [&](int64_t splits) { return (tiles + splits - 1) / splits; };
  const auto waves = [&](int64_t splits) {
    return (items * splits + multiprocessors - 1) / multiprocessors;
  };
  const auto eligible = [&](int64_t splits) {
    return splits == 1 || tiles_each(splits) != tiles_each(splits - 1);
  };
  const int64_t most = std::min({int64_t{128}, multiprocessors, tiles});
  int64_t best = 1;
  for (int64_t splits = 2; splits <= most; ++splits) {
    if (eligible(splits) && splits * waves(best) > best * waves(splits)) best = splits;
  }
  for (int64_t splits = 1; splits <= most; ++splits) {
    if (eligible(splits) && splits * waves(best) * 100 >= best * waves(splits) * 85) {
      return static_cast<int>(splits);
    }
  }
  return 1;
}

}  // namespace

TEST_CASE("wave efficiency: how full the waves are") {
  CHECK(wave_efficiency(48, 1, 108) == doctest::Approx(48.0 / 108));
  CHECK(wave_efficiency(48, 2, 108) == doctest::Approx(96.0 / 108));
  CHECK(wave_efficiency(48, 3, 108) == doctest::Approx(144.0 / 216));
  CHECK(wave_efficiency(132, 1, 132) == 1);
  CHECK(wave_efficiency(133, 1, 132) == doctest::Approx(133.0 / 264));
  CHECK(wave_efficiency(1, 1, 1) == 1);
  CHECK(wave_efficiency(0, 5, 132) == 0);  // not 0 / 0
  CHECK(wave_efficiency(kLargest32, 128, 132) == doctest::Approx(1));
  CHECK(wave_efficiency(int64_t{1} << 60, 128, 1) == 1);
  CHECK_THROWS_AS(wave_efficiency(-1, 1, 132), fa::InputError);
  CHECK_THROWS_AS(wave_efficiency(1, 0, 132), fa::InputError);
  CHECK_THROWS_AS(wave_efficiency(1, 1, 0), fa::InputError);
}

TEST_CASE("splits_for: worked by hand") {
  CHECK(splits_for(48, 108, 1000) == 2);      // 0.89; the best is 9 splits, which fill 4 waves
  CHECK(splits_for(1, 132, 1000000) == 109);  // the best is 128 splits: 0.85 * 128 = 108.8
  CHECK(splits_for(1, 132, 1024) == 114);     // 103 to 113 splits all have 10 tiles each
  CHECK(splits_for(8, 132, 1024) == 14);      // 112 / 132 = 0.848; the best, 49, has 392 / 396
  CHECK(splits_for(6, 132, 100) == 17);       // 102 / 132 is exactly 85 % of 120 / 132
  CHECK(splits_for(8, 132, 64) == 16);        // 15 splits have 5 tiles each, as do 13
  CHECK(splits_for(8, 132, 16) == 16);
  CHECK(splits_for(8, 132, 12) == 12);
  CHECK(splits_for(8, 132, 5) == 5);  // one tile per split
  CHECK(splits_for(64, 132, 1024) == 2);
}

TEST_CASE("splits_for: edges") {
  CHECK(splits_for(1, 132, 0) == 1);
  CHECK(splits_for(1, 132, 1) == 1);
  CHECK(splits_for(1, 132, 2) == 2);
  CHECK(splits_for(0, 132, 100) == 1);
  CHECK(splits_for(1, 1, 100) == 1);
  CHECK(splits_for(1, 2, 100) == 2);
  CHECK(splits_for(1000, 132, 1000) == 1);
  CHECK(splits_for(3, 5, 100) > 1);   // 0.6
  CHECK(splits_for(4, 5, 100) == 1);  // exactly 0.8
  CHECK(splits_for(105, 132, 1000) > 1);
  CHECK(splits_for(106, 132, 1000) == 1);  // 0.8 * 132 = 105.6
  CHECK(splits_for(17, 20, 20) == 1);
  CHECK(splits_for(1, 20, 20) == 20);    // 17 is 0.85 of the best, but has as many tiles per split
                                         // as 10
  CHECK(splits_for(1, 20, 1000) == 17);  // exactly 0.85
  CHECK(splits_for(1, kLargest32, kLargest32) == 109);  // 0.85 * 128 = 108.8
  CHECK(splits_for(kLargest32, kLargest32, kLargest32) == 1);
  CHECK(splits_for(kLargest32, 132, kLargest32) == 1);
  CHECK(splits_for(1, 132, int64_t{1} << 60) == 109);
  CHECK(splits_for(int64_t{1} << 60, int64_t{1} << 61, int64_t{1} << 60) == 2);
  CHECK_THROWS_AS(splits_for(-1, 132, 1), fa::InputError);
  CHECK_THROWS_AS(splits_for(1, 0, 1), fa::InputError);
  CHECK_THROWS_AS(splits_for(1, -132, 1), fa::InputError);
  CHECK_THROWS_AS(splits_for(1, 132, -1), fa::InputError);
}

TEST_CASE("splits_for: the rule in whole numbers, and no split is empty") {
  for (const int64_t multiprocessors : {1, 2, 3, 5, 20, 80, 108, 114, 132, 144, 264}) {
    for (int64_t items = 0; items <= multiprocessors + 2; ++items) {
      for (const int64_t tiles :
           {0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 64, 100, 127, 128, 129, 300, 1000, 4097}) {
        CAPTURE(multiprocessors);
        CAPTURE(items);
        CAPTURE(tiles);
        const int splits = splits_for(items, multiprocessors, tiles);
        REQUIRE(splits == expected_splits(items, multiprocessors, tiles));
        REQUIRE(splits <= std::max<int64_t>(1, std::min({int64_t{128}, multiprocessors, tiles})));
        if (tiles > 0) REQUIRE(tiles_of_split(splits - 1, splits, tiles).size() > 0);
      }
    }
  }
}

TEST_CASE("tiles_of_split: by hand") {
  CHECK(tiles_of_split(0, 1, 7) == Range{0, 7});
  CHECK(tiles_of_split(0, 3, 7) == Range{0, 3});
  CHECK(tiles_of_split(1, 3, 7) == Range{3, 6});
  CHECK(tiles_of_split(2, 3, 7) == Range{6, 7});
  CHECK(tiles_of_split(3, 5, 6) == Range{6, 6});  // 2 tiles per split, so three splits have them
                                                  // all
  CHECK(tiles_of_split(4, 5, 6) == Range{6, 6});
  CHECK(tiles_of_split(0, 4, 0) == Range{0, 0});
  constexpr int64_t many = int64_t{1} << 40;
  CHECK(tiles_of_split(127, 128, many) == Range{many / 128 * 127, many});
  CHECK(tiles_of_split(2, 3, kLargest32) == Range{kLargest32 / 3 * 2 + 2, kLargest32});
  CHECK_THROWS_AS(tiles_of_split(0, 0, 1), fa::InputError);
  CHECK_THROWS_AS(tiles_of_split(-1, 2, 1), fa::InputError);
  CHECK_THROWS_AS(tiles_of_split(2, 2, 1), fa::InputError);
  CHECK_THROWS_AS(tiles_of_split(0, 1, -1), fa::InputError);
}

TEST_CASE("tiles_of_split and keys_of_split: each tile and each key once, in their order") {
  for (int64_t splits = 1; splits <= 40; ++splits) {
    for (int64_t length = 0; length <= 100; ++length) {
      for (const int64_t block_kv : {1, 7, 64}) {
        const int64_t tiles = (length + block_kv - 1) / block_kv;
        const int64_t each = (tiles + splits - 1) / splits;
        int64_t next_tile = 0, next_key = 0;
        for (int64_t split = 0; split < splits; ++split) {
          const Range of = tiles_of_split(split, splits, tiles);
          REQUIRE(of.begin == next_tile);
          REQUIRE(of.size() == std::min(each, tiles - next_tile));
          const Range keys = keys_of_split(split, splits, length, block_kv);
          REQUIRE(keys.begin == next_key);
          REQUIRE(keys.size() == std::min(each * block_kv, length - next_key));
          next_tile = of.end;
          next_key = keys.end;
        }
        REQUIRE(next_tile == tiles);
        REQUIRE(next_key == length);
      }
    }
  }
  CHECK_THROWS_AS(keys_of_split(0, 1, -1, 64), fa::InputError);
  CHECK_THROWS_AS(keys_of_split(0, 1, 10, 0), fa::InputError);
}
