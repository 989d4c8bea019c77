// barrier_divergence: threads that should meet, and do not. A GPU hangs, or goes on with garbage;
// here the block ends, because nothing that it would do from there on has a meaning.

#include <stdexcept>
#include <string>
#include <utility>

#include "common/simt/block.hpp"

namespace fa::simt {

namespace {

std::string at(Collective collective, const Site& site) {
  return std::string(collective_name(collective)) + " (" + to_string(site) + ")";
}

}  // namespace

const char* collective_name(Collective collective) {
  switch (collective) {
    case Collective::kLdmatrixX1:
      return "ldmatrix_x1";
    case Collective::kLdmatrixX1Trans:
      return "ldmatrix_x1_trans";
    case Collective::kLdmatrixX2:
      return "ldmatrix_x2";
    case Collective::kLdmatrixX2Trans:
      return "ldmatrix_x2_trans";
    case Collective::kLdmatrixX4:
      return "ldmatrix_x4";
    case Collective::kLdmatrixX4Trans:
      return "ldmatrix_x4_trans";
    case Collective::kMma:
      return "mma_m16n8k16";
    case Collective::kShuffle:
      return "shfl_xor";
    case Collective::kVote:
      return "warp_any";
    case Collective::kWarpSync:
      return "warp_sync";
    case Collective::kBlockSync:
      return "block_sync";
  }
  return "?";
}

// `thread` has arrived where it can never be joined by the others.
void Block::diverge(Thread& thread, Collective collective, const Site& site) {
  const Warp& warp = *thread.warp;
  const std::string here =
      "thread " + std::to_string(thread.index) + " is at " + at(collective, site) + ", but ";
  if (warp.arrived > 0) {
    report_divergence(thread, site, warp.site,
                      here + std::to_string(warp.arrived) + " of its warp's lanes wait at " +
                          at(warp.collective, warp.site));
  } else if (warp.exited > 0) {
    report_divergence(
        thread, site, {},
        here + std::to_string(warp.exited) + " of its warp's lanes have returned from the kernel");
  } else {
    const Warp* other = &warps_[0];
    while (!other->at_barrier) ++other;
    report_divergence(thread, site, other->site,
                      here + "warp " + std::to_string(other->index) + " waits at " +
                          at(other->collective, other->site));
  }
  abandon(thread);
}

void Block::report_early_return(const Thread& thread) {
  const Warp& warp = *thread.warp;
  report_divergence(thread, warp.site, {},
                    "thread " + std::to_string(thread.index) +
                        " has returned from the kernel, but " + std::to_string(warp.arrived) +
                        " of its warp's lanes wait at " + at(warp.collective, warp.site));
}

// Nobody can run any more, but some warps wait at a barrier; `last` was the last that ran.
void Block::report_missing_arrivals(const Thread& last) {
  int returned = 0;
  const Warp* waiting = nullptr;
  for (const Warp& warp : warps_) {
    returned += warp.exited;
    if (warp.at_barrier && waiting == nullptr) waiting = &warp;
  }
  report_divergence(last, waiting->site, {},
                    std::to_string(waiting_warps_) + " of " + std::to_string(warps_.size()) +
                        (waiting_warps_ == 1 ? " warps waits at " : " warps wait at ") +
                        at(waiting->collective, waiting->site) + ", but " +
                        std::to_string(returned) +
                        " threads have returned from the kernel and never arrive");
}

void Block::report_divergence(const Thread& thread, Site place, Site other,
                              const std::string& text) {
  // Who came first is chance: the place that comes first in the source is reported.
  if (other.line != 0 &&
      std::make_pair(other.line, to_string(other)) < std::make_pair(place.line, to_string(place))) {
    std::swap(place, other);
  }
  if (!launch_.run.hazards) {
    error_ = std::make_exception_ptr(
        std::runtime_error(to_string(place) + ": barrier_divergence: " + text));
    return;
  }
  Hazard hazard;
  hazard.kind = HazardKind::kBarrierDivergence;
  hazard.where = place;
  hazard.other = other;
  hazard.count = 1;
  hazard.block = index_;
  hazard.thread = thread.index;
  hazard.text = text;
  hazards_.add(std::move(hazard));
}

}  // namespace fa::simt
