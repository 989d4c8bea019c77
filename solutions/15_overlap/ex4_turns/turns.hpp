#pragma once
// A turn is 128 arrivals at the barrier of the consumer whose turn it is. With that consumer's 128
// arrivals, they open the barrier. Consumer 0 waits for its first turn too, so the last consumer
// passes it a turn before the loop.

#include "common/kernels/geometry.hpp"

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
// issued; and no consumer waits for the softmax of another.
template <class Steps>
FA_DEVICE void consume(Steps& steps, int consumer, int consumers, int num_tiles) {
  const int own = 1 + consumer, next = 1 + (consumer + 1) % consumers;  // 0 is block_sync's
  if (consumer == consumers - 1) barrier_arrive(next, 2 * 128);
  for (int tile = 0; tile < num_tiles; ++tile) {
    barrier_sync(own, 2 * 128);
    steps.issue(tile);
    barrier_arrive(next, 2 * 128);
    steps.softmax(tile);
  }
}

}  // namespace FA_BACKEND::ex15
