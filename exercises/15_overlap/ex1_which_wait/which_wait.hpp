#pragma once
// The N of wgmma_wait<N>.

#include <vector>

#include "exercises/support/todo.hpp"

// The calls of a warpgroup so far, in order.
struct Step {
  enum Kind {
    kWgmma,  // it adds to the accumulators `result`
    kCommit  // wgmma_commit(), which closes a group of all wgmma since the last one
  } kind;
  char result = ' ';  // name of the accumulators of a wgmma, 'S', 'O', …
};
using Program = std::vector<Step>;

// The program continues with wgmma_wait<N>, and then ordinary instructions read all that its wgmma
// have added to `result`. There is at least one such wgmma. Returns the largest N that is right, so
// that all groups that may stay in flight do, or -1 if no N is right.
inline int groups_that_may_fly(const Program& program, char result) {
  exercise::todo("TODO(15.1): how many groups may stay in flight");
}
