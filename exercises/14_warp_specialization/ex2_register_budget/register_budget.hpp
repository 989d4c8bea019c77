#pragma once
// How many registers each warpgroup of a block can have.

#include <algorithm>

#include "exercises/support/todo.hpp"

// A block has one producer warpgroup and `consumers` consumer warpgroups, 1 to 7 of them: with the
// producer no more than 1024 threads. It runs alone on its multiprocessor. A register budget is a
// number for each thread.

// Registers per thread at launch: 65536 divided by the threads, rounded down to a multiple of 8.
inline int at_launch(int consumers) {
  exercise::todo("TODO(14.2): at launch, after setmaxnreg, and how many consumers fit");
}

// The producer's code needs `producer_needs` registers, not more than it has at launch. It gives up
// what it can, by setmaxnreg_dec; the consumers share that, all alike, by setmaxnreg_inc. How many
// has each thread of a consumer then, at most? More than 256 setmaxnreg does not give.
inline int claim(int consumers, int producer_needs) {
  exercise::todo("TODO(14.2): at launch, after setmaxnreg, and how many consumers fit");
}

// The consumers' code needs `consumer_needs`. How many consumers can the block have? 0: not one.
// Here too the producer's code runs with what it has at launch, and that must be enough.
inline int most_consumers(int consumer_needs, int producer_needs) {
  exercise::todo("TODO(14.2): at launch, after setmaxnreg, and how many consumers fit");
}
