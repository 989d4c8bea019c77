#pragma once
// Groups end in order, so the last product that uses a thing decides. wgmma_wait<N> lets the N
// youngest groups stay in flight, so it is enough if N or more products are younger than that one.

#include <vector>

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

inline bool uses(const Step& product, Thing thing) {
  const bool odd = product.number % 2 == 1;
  if (product.kind == Step::kScores)
    return thing == Thing::S || thing == (odd ? Thing::K1 : Thing::K0);
  return thing == Thing::P || thing == Thing::O || thing == (odd ? Thing::V1 : Thing::V0);
}

// The index in `program` of the first wait after which no product of the program uses `thing` any
// more, so that ordinary instructions, or the producer, may write it after this wait. -1 if there
// is no such wait. At least one product uses it.
inline int free_behind(const Program& program, Thing thing) {
  bool used = false;
  int newer = 0, found = -1;  // products after the last one that uses it; the wait
  for (int i = 0; i < static_cast<int>(program.size()); ++i) {
    const Step& step = program[i];
    if (step.kind == Step::kWait) {
      if (used && found < 0 && step.number <= newer) found = i;
    } else if (uses(step, thing)) {
      used = true;
      newer = 0;
      found = -1;
    } else {
      ++newer;
    }
  }
  return found;
}
