#pragma once
// Keys go round a ring of ranks, one piece per step.

#include <cstdint>

#include "exercises/support/todo.hpp"

constexpr int NOBODY = -1;

// The keys of a rank at a step, and its partners in the exchange at the end of the step.
struct Step {
  int owner;           // the rank that held these keys at step 0
  int64_t begin, end;  // the keys [begin, end) of the sequence
  int from, to;        // ranks; NOBODY at the last step: -1 in the verdicts
};

// rank: 0 to ranks - 1; step: 0 to ranks - 1; length: keys of all ranks together, 0 or more.
inline Step at_step(int rank, int step, int ranks, int64_t length) {
  exercise::todo("TODO(19.1): whose keys, which ones, and who the neighbours are");
}
