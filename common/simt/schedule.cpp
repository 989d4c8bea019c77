// In which order warps and lanes take turns. A correct kernel cannot tell.

#include <algorithm>
#include <numeric>

#include "common/simt/block.hpp"
#include "common/simt/shuffle.hpp"

namespace fa::simt {

void Block::prepare_schedule() {
  const uint64_t seed = launch_.run.schedule_seed;
  warp_order_.resize(warps_.size());
  std::iota(warp_order_.begin(), warp_order_.end(), 0);
  std::vector<uint8_t> lanes(kWarpSize);
  change_warp_every_ = 0;  // seed 0: each warp in its turn runs to its next barrier
  if (seed != 0) {
    random_.seed(seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(index_));
    shuffle(warp_order_, random_);
    constexpr uint32_t kChangeEvery[] = {0, 1, 2, 8};  // 1: at every warp-wide instruction
    change_warp_every_ = kChangeEvery[seed % 4];
  }
  for (Warp& warp : warps_) {
    lanes.resize(static_cast<size_t>(warp.lanes));
    std::iota(lanes.begin(), lanes.end(), uint8_t{0});
    if (seed != 0) shuffle(lanes, random_);
    for (size_t i = 0; i < lanes.size(); ++i) {
      warp.first[lanes[i]].next = &warp.first[lanes[(i + 1) % lanes.size()]];
    }
    warp.resume = &warp.first[lanes[0]];
  }
}

// The next warp that can run, nullptr if there is none.
Warp* Block::pick_warp() {
  if (change_warp_every_ != 0) {
    std::rotate(warp_order_.begin(),
                warp_order_.begin() + static_cast<ptrdiff_t>(random_() % warp_order_.size()),
                warp_order_.end());
  }
  for (int index : warp_order_) {
    Warp& warp = warps_[static_cast<size_t>(index)];
    if (!warp.at_barrier && warp.exited < warp.lanes) return &warp;
  }
  return nullptr;
}

void Block::maybe_change_warp(Thread& thread) {
  if (change_warp_every_ == 0 || random_() % change_warp_every_ != 0) return;
  thread.warp->resume = &thread;
  Warp* next = pick_warp();  // at least this one can run
  if (next != thread.warp) hand_over(thread, *next->resume);
}

}  // namespace fa::simt
