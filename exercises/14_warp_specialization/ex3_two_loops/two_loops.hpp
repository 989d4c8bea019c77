#pragma once
// The loop of a producer and the loop of its consumers, around a ring of buffers.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex14 {

constexpr int STAGES = 3;  // buffers
constexpr int TILE_ROWS = 8;
constexpr uint32_t TILE_BYTES = TILE_ROWS * 128;  // a box {64, TILE_ROWS} of bf16

// Addresses in shared memory, of what belongs to the buffers 0 to STAGES - 1. The mbarriers are
// initialized, so that a phase of full takes one arrival, and one of empty an arrival of each
// consumer.
struct Ring {
  uint32_t tile[STAGES];
  uint32_t full[STAGES], empty[STAGES];
};

// Called by thread 0 alone. Tile t of the map begins at row t * TILE_ROWS, where tiles are 0 to
// num_tiles
// - 1. You call mbarrier_wait(mbarrier, parity), mbarrier_arrive_expect_tx(mbarrier, bytes),
//             tma_load_2d(tile, map, column, row, mbarrier).
FA_DEVICE void produce(const TensorMap& map, const Ring& ring, int num_tiles) {
  exercise::todo("TODO(14.3): the producer's loop, and the consumers'");
}

// Called by all 32 lanes of each consumer, which is a warp here, and reads tiles with ordinary
// loads. sums.add(address) takes a tile's address in shared memory, and is called by all its lanes,
// once for each tile in order, where each lane reads a different piece. You also have
// mbarrier_wait, mbarrier_arrive(mbarrier), lane_index(), and warp_sync(), which guarantees that
// everything that each lane of the warp did before it comes before everything that any lane does
// after it.
template <class Sums>
FA_DEVICE void consume(Sums& sums, const Ring& ring, int num_tiles) {
  exercise::todo("TODO(14.3): the producer's loop, and the consumers'");
}

}  // namespace FA_BACKEND::ex14
