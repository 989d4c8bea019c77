// Reports threads that should meet at an instruction but do not. A GPU would hang or continue with
// invalid data. The emulator ends the block, because its further results would have no meaning.

#include <bit>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "common/simt/block.hpp"

namespace fa::simt {

namespace {

std::string at(Instruction instruction, const Site& site, int id = -1) {
  std::string text = info(instruction).name;
  if (id > 0) text += " " + std::to_string(id);
  return text + " (" + to_string(site) + ")";
}

}  // namespace

bool comes_before(const Site& a, const Site& b) {
  if (a.line != b.line) return a.line < b.line;
  return !same_site(a, b) && to_string(a) < to_string(b);
}

// Reports that `thread` waits at a place where the others can never join it.
void Block::diverge(Thread& thread, Instruction instruction, const Site& site) {
  const Warp& warp = *thread.warp;
  const std::string here =
      "thread " + std::to_string(thread.index) + " is at " + at(instruction, site) + ", but ";
  Site other;
  std::string text;
  if (warp.arrived > 0) {
    other = warp.site;
    text = std::to_string(warp.arrived) + " of its warp's lanes wait at " +
           at(warp.meeting, warp.site);
  } else if (warp.exited > 0) {
    text = std::to_string(warp.exited) + " of its warp's lanes have returned from the kernel";
  } else {  // whole warps, either in a warpgroup, or at a barrier for different numbers of threads
    text = "other threads have arrived there for another instruction";
    for (const Warp& waiting : warps_) {
      if (!waiting.parked) continue;
      const Wait& wait = waiting.wait;
      other = wait.site;
      text = "warp " + std::to_string(waiting.index) + " waits at " + at(wait.what, other, wait.id);
      if (wait.expected >= 0) text += " for " + std::to_string(wait.expected) + " threads";
      break;
    }
  }
  report_stuck(HazardKind::kBarrierDivergence, thread, site, other, here + text);
  abandon(thread);
}

void Block::report_early_return(const Thread& thread) {
  const Warp& warp = *thread.warp;
  report_stuck(HazardKind::kBarrierDivergence, thread, warp.site, {},
               "thread " + std::to_string(thread.index) + " has returned from the kernel, but " +
                   std::to_string(warp.arrived) + " of its warp's lanes wait at " +
                   at(warp.meeting, warp.site));
}

// Reports that threads remain and none of them can continue. If they only wait at block_sync, the
// others have returned, which is barrier_divergence. Any other case is a deadlock, whose report
// says which threads wait where and for what.
void Block::report_nobody_can_run(const std::string& others) {
  struct Waiting {
    int warps = 0, lanes = 0;
    const Thread* first = nullptr;
  };
  using Key = std::tuple<int, std::string, Instruction, int, int>;  // groups threads that wait at
                                                                    // the same place
  std::map<Key, std::pair<Wait, Waiting>> places;
  int returned = 0, waiting_warps = 0;
  bool only_block_sync = true;
  const auto add = [&](const Wait& wait, const Thread& thread, int warps, int lanes) {
    auto& [what, waiting] =
        places[{wait.site.line, to_string(wait.site), wait.what, wait.id, wait.mbarrier}];
    what = wait;
    if (waiting.first == nullptr) waiting.first = &thread;
    waiting.warps += warps;
    waiting.lanes += lanes;
    if (wait.what != Instruction::kBlockSync || warps == 0) only_block_sync = false;
  };
  const Warp* first_waiting = nullptr;
  for (const Warp& warp : warps_) {
    returned += warp.exited;
    if (warp.parked) {
      ++waiting_warps;
      if (first_waiting == nullptr) first_waiting = &warp;
      add(warp.wait, *warp.first, 1, 0);
      continue;
    }
    for (int lane = 0; lane < warp.lanes; ++lane) {
      const Thread& thread = warp.first[lane];
      if (thread.finished) continue;
      add(thread.parked ? thread.wait : Wait{warp.meeting, warp.site}, thread, 0, 1);
    }
  }
  std::string text;
  if (only_block_sync) {
    text = std::to_string(waiting_warps) + " of " + std::to_string(warps_.size()) +
           (waiting_warps == 1 ? " warps waits at " : " warps wait at ") +
           at(first_waiting->wait.what, first_waiting->wait.site) + ", but " +
           std::to_string(returned) + " threads have returned from the kernel and never arrive";
    Site place = first_waiting->wait.site, other;
    if (parted_.line != 0) {  // roles may do so, but it is the most likely mistake
      place = parted_;
      other = parted_too_;
      text += "; earlier, some warps had met at " + at(Instruction::kBlockSync, place) +
              " with others at " + at(Instruction::kBlockSync, other);
    }
    report_stuck(HazardKind::kBarrierDivergence, *last_, place, other, text + others);
    return;
  }
  bool mismatch = false, lanes = false;
  for (const auto& [key, entry] : places) {
    const auto& [wait, waiting] = entry;
    if (!text.empty()) text += "; ";
    const int number = waiting.warps > 0 ? waiting.warps : waiting.lanes;
    const char* const noun = waiting.warps > 0 ? "warp" : "thread";
    const int who = waiting.warps > 0 ? waiting.first->warp->index : waiting.first->index;
    text += number == 1 ? noun + (" " + std::to_string(who)) + " waits"
                        : std::to_string(number) + " " + noun + "s (" + noun + " " +
                              std::to_string(who) + " first) wait";
    text += " at " + at(wait.what, wait.site, wait.id);
    if (wait.id >= 0 && wait.id < kNumBarriers && wait.expected > 0) {
      text += ", where " + std::to_string(barriers_[wait.id].arrived) + " of " +
              std::to_string(wait.expected) + " threads have arrived";
    }
    if (wait.lanes != 0 && wait.lanes != ~0u) {
      char mask[16];
      std::snprintf(mask, sizeof mask, "0x%08x", wait.lanes);
      text += std::string(" for the lanes of mask ") + mask;
    }
    lanes = lanes || wait.lanes != 0;
    if (wait.mbarrier >= 0) {
      text += " for " + mbarriers_.missing(wait.mbarrier);
      mismatch = mismatch || mbarriers_.mismatched(wait.mbarrier);
    }
    if (wait.what == Instruction::kSetmaxnregInc) {
      text += ", and " + std::to_string(free_registers_) + " registers per thread are free";
    }
  }
  if (returned > 0) text += "; " + std::to_string(returned) + " threads have returned";
  const auto& [wait, waiting] = places.begin()->second;
  const Site other = places.size() > 1 ? std::next(places.begin())->second.first.site : Site{};
  const HazardKind kind = mismatch ? HazardKind::kTransactionMismatch
                          : lanes  ? HazardKind::kBarrierDivergence
                                   : HazardKind::kDeadlock;
  report_stuck(kind, *waiting.first, wait.site, other, "no thread can continue: " + text + others);
}

// Reports asynchronous work that is unfinished when all threads have returned.
void Block::report_leftovers() {
  mbarriers_.report_leftovers(threads_[0]);
  for (const std::unique_ptr<Warpgroup>& group : warpgroups_) group->report_leftovers();
  for (Thread& thread : threads_) {
    if (thread.stores == nullptr) continue;
    for (const TensorCopy& copy : thread.stores->copies) {
      report(HazardKind::kOverwriteWhileRead, thread, copy.site, copy.offset, [] {
        return "ends before its tma_store has read shared memory: no tma_store_wait_read covers it";
      });
    }
  }
}

void Block::give_up(HazardKind kind, Thread& thread, const Site& site,
                    const std::function<std::string()>& what) {
  report_stuck(kind, thread, site, {},
               "thread " + std::to_string(thread.index) + " of block " + std::to_string(index_) +
                   " " + what());
  abandon(thread);
}

bool Block::waits_at_cluster_sync_only() const {
  return state_ == State::kWaiting && at_cluster_sync_ != 0 && all_at_cluster_sync();
}

std::string Block::place_at_cluster_sync() const {
  const Wait& wait = warps_[static_cast<size_t>(std::countr_zero(at_cluster_sync_))].wait;
  return at(wait.what, wait.site);
}

void Block::give_up_waiting(const std::string& others) {
  if (!waits_at_cluster_sync_only()) report_nobody_can_run(others);
  aborting_ = true;
  finish();
}

void Block::give_up_polling(const std::string& others) {
  const Thread* first = nullptr;  // in source order
  int polling = 0;
  for (const Thread& thread : threads_) {
    if (thread.finished || thread.parked || thread.poll.repeats < kPollsATurn) continue;
    ++polling;
    if (first == nullptr || comes_before(thread.poll.site, first->poll.site)) first = &thread;
  }
  report_stuck(
      HazardKind::kDeadlock, *first, first->poll.site, {},
      "thread " + std::to_string(first->index) + " of block " + std::to_string(index_) +
          (polling > 1 ? " and " + std::to_string(polling - 1) + " others keep" : " keeps") +
          " polling memory that no thread will change" + others);
  aborting_ = true;
  finish();
}

void Block::out_of_steps(Thread& thread, const Site& site) {
  report_stuck(HazardKind::kDeadlock, thread, site, {},
               "thread " + std::to_string(thread.index) + " of block " + std::to_string(index_) +
                   " has executed " + std::to_string(launch_.run.max_steps) +
                   " instructions without finishing");
  abandon(thread);
}

void Block::report_stuck(HazardKind kind, const Thread& thread, Site place, Site other,
                         const std::string& text) {
  // Which of the two came first is chance, so the report names the place that is first in the
  // source.
  if (other.line != 0 && comes_before(other, place)) std::swap(place, other);
  if (!launch_.run.hazards) {
    error_ = std::make_exception_ptr(
        std::runtime_error(to_string(place) + ": " + hazard_name(kind) + ": " + text));
    return;
  }
  Hazard hazard;
  hazard.kind = kind;
  hazard.where = place;
  hazard.other = other;
  hazard.count = 1;
  hazard.block = index_;
  hazard.thread = thread.index;
  hazard.text = text;
  hazards_.add(std::move(hazard));
}

}  // namespace fa::simt
