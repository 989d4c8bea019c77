#pragma once
// Into how many parts to split the keys, so that no multiprocessor waits.

#include <algorithm>
#include <cmath>

#include "exercises/support/todo.hpp"

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
  exercise::todo("TODO(11.2): how full the waves are");
}

// The smallest number of splits that is good enough.
inline int how_many_splits(const Work& work) { exercise::todo("TODO(11.2): the number of splits"); }
