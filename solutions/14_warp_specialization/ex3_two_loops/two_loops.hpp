#pragma once
// The parity is that of pass + 1, because the producer waits for the readers of the previous pass,
// whose phase has the other parity. The warp_sync is needed because an arrival covers only the
// thread that arrives.

#include "common/kernels/geometry.hpp"

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
  for (int tile = 0; tile < num_tiles; ++tile) {
    const int buffer = tile % STAGES, round = tile / STAGES;
    mbarrier_wait(ring.empty[buffer], (round + 1) % 2);  // all have read the tile that was here
    mbarrier_arrive_expect_tx(ring.full[buffer], TILE_BYTES);
    tma_load_2d(ring.tile[buffer], map, 0, tile * TILE_ROWS, ring.full[buffer]);
  }
}

// Called by all 32 lanes of each consumer, which is a warp here, and reads tiles with ordinary
// loads. sums.add(address) takes a tile's address in shared memory, and is called by all its lanes,
// once for each tile in order, where each lane reads a different piece. You also have
// mbarrier_wait, mbarrier_arrive(mbarrier), lane_index(), and warp_sync(), which guarantees that
// everything that each lane of the warp did before it comes before everything that any lane does
// after it.
template <class Sums>
FA_DEVICE void consume(Sums& sums, const Ring& ring, int num_tiles) {
  for (int tile = 0; tile < num_tiles; ++tile) {
    const int buffer = tile % STAGES, round = tile / STAGES;
    mbarrier_wait(ring.full[buffer], round % 2);
    sums.add(ring.tile[buffer]);
    warp_sync();  // all lanes have read: lane 0 speaks for them
    if (lane_index() == 0) mbarrier_arrive(ring.empty[buffer]);
  }
}

}  // namespace FA_BACKEND::ex14
