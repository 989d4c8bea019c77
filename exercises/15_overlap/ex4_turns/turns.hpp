#pragma once
// Consumers that take turns.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex15 {

// All threads of all consumers call it, for consumers 0 to consumers - 1, two or more, each a
// warpgroup of 128 threads. The block has no other threads. For each tile, 0 to num_tiles - 1, in
// this order:
//
//   steps.issue(tile)     issues the products
//   steps.softmax(tile)   waits for the scores, and computes
//
// They issue in turns, first consumer 0 its tile 0, then consumer 1 its tile 0, and so on up to the
// last one; then consumer 0 its tile 1. No consumer begins to issue before the previous one has
// issued; and no consumer waits for the softmax of another. You call:
//
//   barrier_sync(barrier, threads)     arrives at that named barrier, 1 to 15, and waits until
//                                      `threads` threads have arrived there
//   barrier_arrive(barrier, threads)   arrives, and continues
//
// An opened barrier counts from 0 again. All lanes of a warp make these calls together.
template <class Steps>
FA_DEVICE void consume(Steps& steps, int consumer, int consumers, int num_tiles) {
  exercise::todo("TODO(15.4): where to wait, where to arrive, and the first turn");
}

}  // namespace FA_BACKEND::ex15
