#pragma once
// FlashAttention-1, with keys in the outer loop and queries in the inner loop.

#include <algorithm>
#include <cmath>
#include <vector>

#include "exercises/02_tiled_cpu/tiles.hpp"
#include "exercises/support/todo.hpp"

using tiles::SlowMemory;
using tiles::State;

// A state in slow memory holds o *divided by l*, which is the finished attention of the keys so
// far. `alone`, from SlowMemory::attend, is the state of one tile of keys, whose o is not divided.
inline void flash_attention_1(SlowMemory& memory) {
  exercise::todo("TODO(02.8): load each tile of keys once; for each tile of queries, update");
}
