#pragma once
// FlashAttention-1: keys outside, queries inside.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "exercises/02_tiled_cpu/tiles.hpp"

using tiles::SlowMemory;
using tiles::State;

// Here a state in slow memory holds o *divided by l*: the finished attention over the keys so far.
// `alone`, from SlowMemory::attend, is what one tile of keys means: its o is not divided.
inline void flash_attention_1(SlowMemory& memory) {
  for (int64_t kv = 0; kv < memory.kv_tiles(); ++kv) {
    const SlowMemory::KeyTile keys = memory.load_kv(kv);
    for (int64_t qt = 0; qt < memory.q_tiles(); ++qt) {
      const tiles::Tile Q = memory.load_q(qt);
      const std::vector<State> alone = memory.attend(Q, keys);
      std::vector<State> states(alone.size(), State(keys.V.cols));
      if (kv > 0) states = memory.load_output(qt);
      for (size_t r = 0; r < alone.size(); ++r) {
        const State& tile = alone[r];
        const float m = std::max(states[r].m, tile.m);
        const float keep = std::exp(states[r].m - m) * states[r].l;
        const float add = std::exp(tile.m - m);
        const float l = keep + add * tile.l;
        for (size_t d = 0; d < tile.o.size(); ++d) {
          states[r].o[d] = (keep * states[r].o[d] + add * tile.o[d]) / l;
        }
        states[r].m = m;
        states[r].l = l;
      }
      memory.store_output(qt, std::move(states));
    }
  }
}
