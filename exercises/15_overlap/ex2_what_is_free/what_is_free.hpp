#pragma once
// Behind which wait registers and buffers may be written again.

#include <vector>

#include "exercises/support/todo.hpp"

// What a consumer has: registers S, P, O, for all tiles the same; of K and of V two buffers in
// shared memory, 0 for even tiles, 1 for odd ones.
enum class Thing { S, P, O, K0, K1, V0, V1 };

// What it does, in order. A product is issued and committed: one group.
struct Step {
  enum Kind {
    kScores,  // S = Q @ K.T
    kOutput,  // O += P @ V
    kWait     // wgmma_wait<N>
  } kind;
  int number;  // of a product: the tile; of a wait: N
};
using Program = std::vector<Step>;

// The index in `program` of the first wait behind which no product of the program uses `thing` any
// more: from there on ordinary instructions, or the producer, may write it. -1: there is no such
// wait. At least one product uses it.
inline int free_behind(const Program& program, Thing thing) {
  exercise::todo("TODO(15.2): the first wait behind which nobody uses it");
}
