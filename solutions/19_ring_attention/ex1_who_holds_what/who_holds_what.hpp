#pragma once
// `+ ranks` is needed because % keeps the sign of the dividend, and rank - step may be negative.
// The product comes first, because length / ranks would drop the remainder, and no rank would hold
// these keys.

#include <cstdint>

constexpr int NOBODY = -1;

// The keys of a rank at a step, and its partners in the exchange at the end of the step.
struct Step {
  int owner;           // the rank that held these keys at step 0
  int64_t begin, end;  // the keys [begin, end) of the sequence
  int from, to;        // ranks; NOBODY after the last step
};

// rank: 0 to ranks - 1; step: 0 to ranks - 1; length: keys of all ranks together, 0 or more.
inline Step at_step(int rank, int step, int ranks, int64_t length) {
  const int owner = (rank + ranks - step) % ranks;
  Step now{owner, owner * length / ranks, (owner + 1) * length / ranks, NOBODY, NOBODY};
  if (step == ranks - 1) return now;
  now.from = (rank + ranks - 1) % ranks;
  now.to = (rank + 1) % ranks;
  return now;
}
