#pragma once
// Groups end in order, so the last group that adds to the result decides. N is the number of all
// groups that were committed after that one, including empty groups. It does not count wgmma.

#include <vector>

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
  bool open = false;  // a wgmma into `result` since the last commit: no wait waits for it
  int newer = -1;     // groups committed after the last one with such a wgmma
  for (const Step& step : program) {
    if (step.kind == Step::kWgmma) {
      open = open || step.result == result;
    } else if (open) {
      open = false;
      newer = 0;
    } else if (newer >= 0) {
      ++newer;
    }
  }
  return open ? -1 : newer;
}
