#pragma once
// Chooses the number of splits of a sequence's keys, and the tiles of keys in each.
//
// One query per sequence gives few blocks, so most SMs are idle. Flash-Decoding (Dao, Haziza, Massa
// and Sizov 2023) distributes the keys of one sequence over several blocks. The number of splits is
// FlashAttention's rule.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "common/error.hpp"
#include "common/kernels/decode.hpp"

namespace ch11 {

using fa::kMostSplits;  // each split costs a partial O that is written and read again

// Positions [begin, end) of tiles or keys.
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Returns a / b, rounded up. Neither may be negative, and b must not be 0. It computes no sum that
// could overflow.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

inline void check_at_least(int64_t least, int64_t number, const char* what) {
  if (number >= least) return;
  throw fa::InputError(std::string(what) + ": " + std::to_string(number) + ": expected at least " +
                       std::to_string(least));
}

// Returns the busy fraction of the machine, waves / ceil(waves), at most 1. Blocks run in waves of
// one per SM, and the last wave is rarely full. Without work it is 0.
inline double wave_efficiency(int64_t items, int64_t splits, int64_t multiprocessors) {
  check_at_least(0, items, "work items");
  check_at_least(1, splits, "splits");
  check_at_least(1, multiprocessors, "multiprocessors");
  const double waves = static_cast<double>(items) * static_cast<double>(splits) /
                       static_cast<double>(multiprocessors);
  return waves == 0 ? 0 : waves / std::ceil(waves);
}

// [anchor: splits_for]
// Returns the smallest number of splits whose efficiency is at least `part` of the best one's.
// `items`: blocks without splitting, batch * kv_heads * query tiles. `multiprocessors`: blocks that
// run at a time. `tiles`: number of key tiles of the longest sequence in use. If it were counted
// from the size of the cache, there would be splits without keys (FlashAttention issue 1000).
inline int splits_for(int64_t items, int64_t multiprocessors, int64_t tiles, double part = 0.85) {
  check_at_least(0, items, "work items");
  check_at_least(1, multiprocessors, "multiprocessors");
  check_at_least(0, tiles, "key tiles");
  // items >= 0.8 * multiprocessors, computed exactly
  if (5.0 * static_cast<double>(items) >= 4.0 * static_cast<double>(multiprocessors)) return 1;

  const int most = static_cast<int>(
      std::min({int64_t{kMostSplits}, multiprocessors, std::max<int64_t>(tiles, 1)}));
  std::array<double, kMostSplits + 1> efficiency{};  // 0: as many tiles per split as with one split
                                                     // less
  for (int splits = 1; splits <= most; ++splits) {
    if (splits > 1 && ceil_div(tiles, splits) == ceil_div(tiles, splits - 1)) continue;
    efficiency[splits] = wave_efficiency(items, splits, multiprocessors);
  }
  const double best = *std::max_element(efficiency.begin(), efficiency.end());
  const double enough = (part - 1e-9) * best;  // so that exactly 85 % counts, however it is rounded
  int splits = 1;
  while (efficiency[splits] < enough) ++splits;
  return splits;
}
// [/anchor: splits_for]

// Returns the tiles of a split. Every split has ceil(tiles / splits) tiles, except that the last
// non-empty one may have fewer and all later ones are empty.
inline Range tiles_of_split(int64_t split, int64_t splits, int64_t tiles) {
  check_at_least(0, tiles, "key tiles");
  check_at_least(0, split, "number of a split");
  check_at_least(split + 1, splits, "splits");
  const int64_t each = ceil_div(tiles, splits);
  const int64_t begin = std::min(split * each, tiles);
  return {begin, std::min(begin + each, tiles)};
}

// Returns the keys in those tiles, of `block_kv` keys each, for a sequence of `length` keys.
inline Range keys_of_split(int64_t split, int64_t splits, int64_t length, int64_t block_kv) {
  check_at_least(0, length, "keys");
  check_at_least(1, block_kv, "keys of a tile");
  const Range tiles = tiles_of_split(split, splits, ceil_div(length, block_kv));
  return {std::min(tiles.begin * block_kv, length), std::min(tiles.end * block_kv, length)};
}

}  // namespace ch11
