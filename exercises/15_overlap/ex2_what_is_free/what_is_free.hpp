#pragma once
// The wait after which registers and buffers may be written again.

#include <vector>

#include "exercises/support/todo.hpp"

// A consumer's storage is registers S, P, O, the same for all tiles, and two buffers each of K and
// V in shared memory, 0 for even tiles, 1 for odd ones.
enum class Thing { S, P, O, K0, K1, V0, V1 };

// Its steps, in order. A product is issued and committed as one group.
struct Step {
  enum Kind {
    kScores,  // S = Q @ K.T
    kOutput,  // O += P @ V
    kWait     // wgmma_wait<N>
  } kind;
  int number;  // tile of a product, or N of a wait
};
using Program = std::vector<Step>;

// The index in `program` of the first wait after which no product of the program uses `thing` any
// more, so that ordinary instructions, or the producer, may write it after this wait. -1 if there
// is no such wait. At least one product uses it.
inline int free_behind(const Program& program, Thing thing) {
  exercise::todo("TODO(15.2): the first wait after which no product uses it");
}
