#pragma once
// The smallest number that is good enough is best, because each split writes a part of O, which is
// read again. A number is skipped if its longest split is as long as the previous number's. The
// longest split decides the time, so the smaller number takes as long with fewer blocks.

#include <algorithm>
#include <cmath>

constexpr int MOST_SPLITS = 128;
constexpr double FULL_ENOUGH = 0.8;   // if this share of the SMs is busy, nothing is split
constexpr double GOOD_ENOUGH = 0.85;  // share of the best efficiency

struct Work {
  int blocks;           // without splitting; at least 1
  int multiprocessors;  // each runs one block at a time
  int keys, capacity;   // that a sequence has, and that the cache has room for
  int block_kv;         // keys in a tile
};

// Returns the part of the machine that is busy while this many blocks (at least one) run. This is
// their number of waves, as a fraction, divided by the number of waves that they take.
inline double efficiency(int blocks, int multiprocessors) {
  const double waves = static_cast<double>(blocks) / multiprocessors;
  return waves / std::ceil(waves);
}

// The smallest number of splits that is good enough.
inline int how_many_splits(const Work& work) {
  if (work.blocks >= FULL_ENOUGH * work.multiprocessors) return 1;
  const int tiles = (work.keys + work.block_kv - 1) / work.block_kv;
  const auto longest = [&](int splits) { return (tiles + splits - 1) / splits; };
  const int most = std::min({MOST_SPLITS, work.multiprocessors, tiles});
  const auto efficiency_of = [&](int splits) {  // 0: no candidate
    if (splits > 1 && longest(splits) == longest(splits - 1)) return 0.0;
    return efficiency(work.blocks * splits, work.multiprocessors);
  };
  double best = 0;
  for (int splits = 1; splits <= most; ++splits) best = std::max(best, efficiency_of(splits));
  for (int splits = 1; splits <= most; ++splits)
    if (efficiency_of(splits) >= GOOD_ENOUGH * best) return splits;
  return 1;  // no keys
}
