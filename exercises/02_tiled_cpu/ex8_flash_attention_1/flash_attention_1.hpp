#pragma once
// FlashAttention-1: keys outside, queries inside.

#include <algorithm>
#include <cmath>
#include <vector>

#include "exercises/02_tiled_cpu/tiles.hpp"
#include "exercises/support/todo.hpp"

using tiles::SlowMemory;
using tiles::State;

// Here a state in slow memory holds o *divided by l*: the finished attention over the keys so far.
// `alone`, from SlowMemory::attend, is the state of one tile of keys: its o is not divided.
inline void flash_attention_1(SlowMemory& memory) {
  exercise::todo("TODO(02.8): load each tile of keys once; for each tile of queries, update");
}
