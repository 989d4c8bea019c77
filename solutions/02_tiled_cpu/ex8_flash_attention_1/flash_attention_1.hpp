#pragma once
// The o in slow memory is divided by l, so keep = e^(m - m') l makes it a sum again, relative to
// m', to which another sum can be added. This order has a cost, because every state is read from
// slow memory and written back for each tile of keys.

#include <algorithm>
#include <cmath>
#include <vector>

#include "exercises/02_tiled_cpu/tiles.hpp"

using tiles::SlowMemory;
using tiles::State;

// A state in slow memory holds o *divided by l*, which is the finished attention of the keys so
// far. `alone`, from SlowMemory::attend, is the state of one tile of keys, whose o is not divided.
inline void flash_attention_1(SlowMemory& memory) {
  for (int64_t j = 0; j < memory.kv_tiles(); ++j) {
    const SlowMemory::KeyTile keys = memory.load_kv(j);
    for (int64_t i = 0; i < memory.q_tiles(); ++i) {
      std::vector<State> states = memory.load_output(i);
      const std::vector<State> alone = memory.attend(memory.load_q(i), keys);
      for (size_t row = 0; row < states.size(); ++row) {
        State& state = states[row];
        const float m = std::max(state.m, alone[row].m);
        const float keep = std::exp(state.m - m) * state.l, add = std::exp(alone[row].m - m);
        const float l = keep + add * alone[row].l;
        for (size_t d = 0; d < state.o.size(); ++d) {
          state.o[d] = (keep * state.o[d] + add * alone[row].o[d]) / l;
        }
        state.m = m;
        state.l = l;
      }
      memory.store_output(i, states);
    }
  }
}
