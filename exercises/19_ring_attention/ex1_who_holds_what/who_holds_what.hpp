#pragma once
// Keys go round a ring of ranks, one piece a step.

#include <cstdint>

#include "exercises/support/todo.hpp"

constexpr int NOBODY = -1;

// What a rank has at a step, and with whom it exchanges it at the end of the step.
struct Step {
  int owner;           // the rank that held these keys at step 0
  int64_t begin, end;  // the keys [begin, end) of the sequence
  int from, to;        // ranks; NOBODY at the last step: -1 in the verdicts
};

// rank: 0 to ranks - 1; step: 0 to ranks - 1; length: keys of all ranks together, 0 or more.
inline Step at_step(int rank, int step, int ranks, int64_t length) {
  exercise::todo("TODO(19.1): whose keys, which ones, and who the neighbours are");
}
