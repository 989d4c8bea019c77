#pragma once
// How many registers each warpgroup of a block can have.

#include <algorithm>

#include "exercises/support/todo.hpp"

// A block has one producer warpgroup and `consumers` consumer warpgroups, 1 to 7 of them, with the
// producer no more than 1024 threads. It runs alone on its multiprocessor. A register budget is a
// number for each thread.

// Registers per thread at launch: 65536 divided by the threads, rounded down to a multiple of 8.
inline int at_launch(int consumers) {
  exercise::todo("TODO(14.2): at launch, after setmaxnreg, and how many consumers fit");
}

// Returns how many registers each thread of a consumer can have. The producer's code needs
// `producer_needs`, no more than it has at launch. The producer gives up all that it can by
// setmaxnreg_dec, and the consumers share these equally by setmaxnreg_inc, up to 256 each.
inline int claim(int consumers, int producer_needs) {
  exercise::todo("TODO(14.2): at launch, after setmaxnreg, and how many consumers fit");
}

// Returns how many consumers, whose code needs `consumer_needs`, the block can have, or 0. Here too
// the producer's code begins with what it has at launch, and that must be enough.
inline int most_consumers(int consumer_needs, int producer_needs) {
  exercise::todo("TODO(14.2): at launch, after setmaxnreg, and how many consumers fit");
}
