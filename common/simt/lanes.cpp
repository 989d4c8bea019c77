// Warp instructions with a mask, CUDA's barriers, and atomic operations.

#include "common/simt/lanes.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "common/simt/begin.hpp"
#include "common/simt/block.hpp"
#include "common/simt/cluster.hpp"

namespace fa::simt {

namespace {

std::string mask_text(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

}  // namespace

uint32_t Block::meet_lanes(Thread& thread, Instruction instruction, uint32_t mask,
                           const Site& site) {
  if (aborting_) throw Unwind();  // the kernel has caught the first one
  Warp& warp = *thread.warp;
  const uint32_t bit = 1u << thread.lane;
  if (mask != 0 && (mask & bit) == 0) {
    give_up(HazardKind::kBarrierDivergence, thread, site, [&] {
      return std::string("executes ") + info(instruction).name + " with mask " + mask_text(mask) +
             ", which does not name its own lane " + std::to_string(thread.lane);
    });
  }
  const bool one_place = instruction == Instruction::kBlockSync || mask == 0;
  size_t index = 0;
  for (; index < warp.lane_meetings.size(); ++index) {
    const Warp::LaneMeeting& meeting = warp.lane_meetings[index];
    if (meeting.instruction == instruction && meeting.mask == mask &&
        (!one_place || same_site(meeting.site, site))) {
      break;
    }
  }
  if (index == warp.lane_meetings.size())
    warp.lane_meetings.push_back({instruction, mask, 0, site});
  Warp::LaneMeeting& meeting = warp.lane_meetings[index];
  meeting.arrived |= bit;
  if (mask != 0 && ((meeting.arrived | warp.gone) & mask) == mask) {
    return complete_lanes(thread, index);
  }
  Wait wait{instruction, site};
  wait.lanes = mask != 0 ? mask : ~0u;
  park(thread, wait);
  if (!thread.executes) return 0;
  thread.executes = false;
  for (index = 0; (warp.lane_meetings[index].arrived & bit) == 0;) ++index;
  return complete_lanes(thread, index);
}

// All lanes of a meeting are there: `thread`, one of them, executes the instruction.
uint32_t Block::complete_lanes(Thread& thread, size_t index) {
  Warp& warp = *thread.warp;
  const uint32_t lanes = warp.lane_meetings[index].arrived;
  warp.lane_meetings.erase(warp.lane_meetings.begin() + static_cast<ptrdiff_t>(index));
  uint32_t step = 0;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    Thread& other = warp.first[lane];
    other.parked = false;
    warp.ready |= 1u << other.position;
    step = std::max(step, warp.steps[lane]);
  }
  if ((lanes | warp.gone) == ~0u) {
    std::fill_n(warp.steps, kWarpSize, step);
    finish_accesses(warp);
  } else {
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1)
      warp.steps[std::countr_zero(rest)] = step;
  }
  note_progress();
  return lanes;
}

// Others may have waited for it alone.
void Block::lane_has_returned(Thread& thread) {
  Warp& warp = *thread.warp;
  warp.gone |= 1u << thread.lane;
  warp.all &= ~(1u << thread.position);
  for (const Warp::LaneMeeting& meeting : warp.lane_meetings) {
    if (meeting.mask == 0 || ((meeting.arrived | warp.gone) & meeting.mask) != meeting.mask)
      continue;
    Thread& first = warp.first[std::countr_zero(meeting.arrived)];
    if (first.executes) continue;
    first.executes = true;
    wake(first);
  }
  if (warp.exited < warp.lanes) return;
  Barrier& barrier = barriers_[0];
  if (barrier.arrived == 0 || barrier.arrived + returned_threads() < barrier.expected) return;
  note_barrier();
  complete(barrier);
}

int Block::returned_threads() const {
  int count = 0;
  for (const Warp& warp : warps_) count += warp.exited == warp.lanes ? warp.lanes : 0;
  return count;
}

// No lane of the warp can continue. Therefore activemask calls the lanes active that wait in the
// first meeting without a mask.
void Block::release_converged(Warp& warp) {
  for (const Warp::LaneMeeting& meeting : warp.lane_meetings) {
    if (meeting.mask != 0) continue;
    Thread& first = warp.first[std::countr_zero(meeting.arrived)];
    if (!first.executes) {
      first.executes = true;
      wake(first);
    }
    return;
  }
}

int Block::sync_cuda(Thread& thread, Instruction instruction, int number, int expected,
                     bool predicate, const Site& site) {
  thread.warp->masks[thread.lane] = predicate;
  if (meet_lanes(thread, instruction, ~0u, site) != 0) {
    arrive_at(thread, instruction, number, expected, site);
  }
  return thread.warp->votes;
}

}  // namespace fa::simt

namespace emulator::lanes {

namespace {

using namespace fa::simt;

constexpr Instruction kShuffles[] = {Instruction::kShuffleFrom, Instruction::kShuffleUp,
                                     Instruction::kShuffleDown, Instruction::kShuffle};

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

template <class F>
void for_each_lane(uint32_t lanes, F f) {
  for (; lanes != 0; lanes &= lanes - 1) f(std::countr_zero(lanes));
}

// Lets the lanes of the mask meet. Each leaves `value`, and f(lanes) leaves each one's result in
// warp.addresses.
template <class F>
uint32_t together(Instruction instruction, uint32_t mask, uint32_t value, const Site& site, F f) {
  Thread& thread = begin(site);
  Warp& warp = *thread.warp;
  warp.values[thread.lane] = std::bit_cast<float>(value);
  if (const uint32_t lanes = thread.block->meet_lanes(thread, instruction, mask, site)) {
    f(warp, lanes);
    thread.block->traffic().collective(warp.index, instruction, site);
  }
  return warp.addresses[thread.lane];
}

// A sum over lanes 0 to n - 1 by shfl_down: the upper half reads past the end, and no lane uses
// what it gets.
bool is_end_of_tree(Shuffle mode, uint32_t lanes, int lane) {
  return mode == Shuffle::kDown && (lanes & (lanes + 1)) == 0 && 2 * lane >= std::popcount(lanes);
}

void report_inactive(const Warp& warp, int lane, int from, const Site& site) {
  const Thread& thread = warp.first[lane];
  thread.block->report(HazardKind::kInactiveLane, thread, site, 0, [&] {
    const char* const why = (warp.gone >> from & 1) == 0 ? "does not take part in the shuffle"
                            : warp.index * kWarpSize + from < thread.block->launch().threads
                                ? "has returned"
                                : "does not exist";
    return "reads lane " + std::to_string(from) + " of its warp, which " + why +
           ", so the result is undefined";
  });
}

}  // namespace

uint32_t shuffle(Shuffle mode, uint32_t mask, uint32_t value, uint32_t operand, uint32_t control,
                 bool* found, const Site& site) {
  Thread& own = current_thread();
  own.warp->masks[own.lane] = static_cast<int>(operand & 31);
  bool lands = false;
  own.warp->sums[own.lane] = &lands;
  const auto clamp = static_cast<int>(control & 31), segment = static_cast<int>(control >> 8 & 31);
  const uint32_t result = together(
      kShuffles[static_cast<int>(mode)], mask, value, site, [&](Warp& warp, uint32_t lanes) {
        for_each_lane(lanes, [&](int lane) {
          const int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
          int from = lane;
          bool good = false;
          switch (mode) {
            case Shuffle::kUp:
              from = lane - warp.masks[lane];
              good = from >= last;
              break;
            case Shuffle::kDown:
              from = lane + warp.masks[lane];
              good = from <= last;
              break;
            case Shuffle::kXor:
              from = lane ^ warp.masks[lane];
              good = from <= last;
              break;
            case Shuffle::kIdx:
              from = first | (warp.masks[lane] & ~segment);
              good = from <= last;
              break;
          }
          if (!good) from = lane;
          *static_cast<bool*>(warp.sums[lane]) = good;
          if ((lanes >> from & 1) != 0) {
            warp.addresses[lane] = bits_of(warp.values[from]);
            return;
          }
          warp.addresses[lane] = ~0u;
          if (!is_end_of_tree(mode, lanes, lane)) report_inactive(warp, lane, from, site);
        });
      });
  if (found != nullptr) *found = lands;
  return result;
}

uint32_t ballot(uint32_t mask, bool predicate, const Site& site) {
  return together(Instruction::kVote, mask, predicate, site, [](Warp& warp, uint32_t lanes) {
    uint32_t votes = 0;
    for_each_lane(lanes, [&](int lane) {
      if (bits_of(warp.values[lane]) != 0) votes |= 1u << lane;
    });
    for_each_lane(lanes, [&](int lane) { warp.addresses[lane] = votes; });
  });
}

uint32_t match(uint32_t mask, uint64_t value, const Site& site) {
  Thread& own = current_thread();
  own.warp->masks[own.lane] = static_cast<int>(value >> 32);
  return together(Instruction::kMatch, mask, static_cast<uint32_t>(value), site,
                  [](Warp& warp, uint32_t lanes) {
                    for_each_lane(lanes, [&](int lane) {
                      uint32_t same = 0;
                      for_each_lane(lanes, [&](int other) {
                        if (bits_of(warp.values[lane]) == bits_of(warp.values[other]) &&
                            warp.masks[lane] == warp.masks[other]) {
                          same |= 1u << other;
                        }
                      });
                      warp.addresses[lane] = same;
                    });
                  });
}

uint32_t reduce(uint32_t mask, uint32_t value, uint32_t (*fold)(uint32_t, uint32_t),
                const Site& site) {
  return together(Instruction::kReduce, mask, value, site, [&](Warp& warp, uint32_t lanes) {
    uint32_t sum = bits_of(warp.values[std::countr_zero(lanes)]);
    for_each_lane(lanes & (lanes - 1),
                  [&](int lane) { sum = fold(sum, bits_of(warp.values[lane])); });
    for_each_lane(lanes, [&](int lane) { warp.addresses[lane] = sum; });
  });
}

void sync(uint32_t mask, const Site& site) {
  together(Instruction::kWarpSync, mask, 0, site, [](Warp& warp, uint32_t lanes) {
    Block& block = *warp.first->block;
    if ((lanes | warp.gone) == ~0u) return block.sync_warp(warp);
    Clock all;
    for_each_lane(lanes, [&](int lane) { all.join(block.release(warp.first[lane])); });
    for_each_lane(lanes, [&](int lane) { block.acquire(warp.first[lane], all); });
  });
}

uint32_t active(const Site& site) {
  return together(Instruction::kActiveMask, 0, 0, site, [](Warp& warp, uint32_t lanes) {
    for_each_lane(lanes, [&](int lane) { warp.addresses[lane] = lanes; });
  });
}

uint32_t alive() { return ~current_thread().warp->gone; }

int block_barrier(int barrier, int threads, bool predicate, const Site& site) {
  Thread& thread = begin(site);
  Block& block = *thread.block;
  const int all = block.launch().threads;
  if (barrier < 0 || barrier >= kNumBarriers) {
    block.give_up(HazardKind::kBarrierDivergence, thread, site, [&] {
      return "waits at barrier " + std::to_string(barrier) + ": barriers are numbered 0 to 15";
    });
  }
  if (threads == 0) threads = (all + kWarpSize - 1) / kWarpSize * kWarpSize;
  // The last warp counts as whole, as it does on a GPU.
  const int missing = (kWarpSize - all % kWarpSize) % kWarpSize;
  const int expected = std::min(threads, all + missing) - (threads >= all ? missing : 0);
  return block.sync_cuda(thread, Instruction::kBlockSync, barrier, expected, predicate, site);
}

namespace {

struct Synchronized {  // an atomic access' place among the clocks
  Thread& thread;
  uint64_t key;  // key in GlobalClocks::released
  int order;

  void read(GlobalClocks& clocks) const {
    const auto found = clocks.released.find(key);
    if (found == clocks.released.end()) return;
    if ((order & kAcquire) != 0) {
      thread.block->acquire_from_others(thread, found->second);
    } else if (found->second != thread.last_met) {
      thread.last_met = found->second;
      thread.met = join(thread.met, found->second);
    }
  }
  void write(GlobalClocks& clocks, bool continues) const {
    std::shared_ptr<const Foreign> mine =
        (order & kRelease) != 0 ? thread.block->release_to_others(thread) : thread.fenced;
    if (mine == nullptr) {  // the usual case
      if (!continues) clocks.released.erase(key);
      return;
    }
    std::shared_ptr<const Foreign>& released = clocks.released[key];
    released = continues ? join(released, mine) : mine;  // a release sequence continues
  }
};

// Returns the block whose shared memory the address means, and takes its rank off the address.
// Reports a rank that the cluster does not have, or bytes outside, and returns nullptr.
Block* owner_of(const Thread& thread, uint32_t& address, const char* verb, uint32_t bytes,
                const Site& site) {
  Block& block = *thread.block;
  Block* owner = block_of(thread, address);
  if (owner == nullptr) {
    block.report(HazardKind::kOutOfBounds, thread, site, address, [&] {
      return bytes_text(verb, bytes) + "byte " + std::to_string(address - kSharedBase) +
             " of the shared memory of a block that its cluster does not have";
    });
    return nullptr;
  }
  return shared_ok(block, thread, site, verb, address, bytes, bytes) ? owner : nullptr;
}

void join_access(Block& block, Thread& thread, Instruction instruction, const Site& site,
                 size_t bytes, uint64_t address, bool shared) {
  WarpAccess* access = block.join_load(thread, instruction, site, static_cast<int>(bytes), address);
  if (access == nullptr) return;
  const auto lane = static_cast<size_t>(thread.lane);
  if (shared) {
    access->shared[lane] = static_cast<uint32_t>(address);
  } else {
    access->sizes[lane] = static_cast<uint8_t>(bytes);
    access->global[lane] = address;
  }
}

}  // namespace

void update(const AtomicTarget& target, size_t bytes, void* old, int order,
            const std::function<void(const void* old, void* fresh)>& f, const Site& site) {
  Thread& thread = begin(site);
  Block& block = *thread.block;
  std::memset(old, 0xff, bytes);
  GlobalClocks& clocks = block.launch().clocks;
  const bool shared = target.global == nullptr;
  const auto size = static_cast<uint32_t>(bytes);
  uint64_t address = 0, key = 0;
  unsigned char* memory = nullptr;
  if (shared) {
    uint32_t place = target.shared;
    Block* const owner = owner_of(thread, place, "updates", size, site);
    if (owner == nullptr) return;
    const uint32_t offset = place - kSharedBase;
    address = offset;
    key = owner->shared_key(offset);
    memory = owner->shared() + offset;
    if (block.launch().run.hazards) {
      Access access = stamp(thread, site);
      access.atomic = true;
      if (owner == &block) {
        block.shadow().store(access, observer(thread), offset, size);
      } else {
        owner->shadow().store_of_another(offset, size);
      }
      block.note_shared(thread, GlobalUse::kAtomic, site, *owner, offset, size);
    }
  } else {
    if (!global_ok(block, thread, site, "updates", target.global, bytes, bytes)) return;
    address = key = reinterpret_cast<uint64_t>(target.global);
    memory = static_cast<unsigned char*>(target.global);
    block.note_global(thread, GlobalUse::kAtomic, site, target.global, bytes);
  }
  const Instruction instruction = !shared                ? Instruction::kAtomicAdd
                                  : (order & kLoop) != 0 ? Instruction::kAtomicSharedLoop
                                                         : Instruction::kAtomicShared;
  join_access(block, thread, instruction, site, bytes, address, shared);
  unsigned char fresh[16];
  {
    const std::lock_guard lock(clocks.mutex);
    copy_global(old, memory, bytes);
    f(old, fresh);
    copy_global(memory, fresh, bytes);
    const Synchronized place{thread, key, order};
    place.read(clocks);
    place.write(clocks, true);
  }
  if (std::memcmp(old, fresh, bytes) == 0) {  // a lock that was taken already, for example
    block.note_load(thread, address, first_bits(old, bytes), site);
  } else {
    block.note_progress();
  }
}

void load(const void* p, void* value, size_t bytes, int order, const Site& site) {
  Thread& thread = begin(site);
  Block& block = *thread.block;
  std::memset(value, 0xff, bytes);
  if (!global_ok(block, thread, site, "reads", p, bytes, bytes)) return;
  const auto address = reinterpret_cast<uint64_t>(p);
  join_access(block, thread, Instruction::kLoadGlobal, site, bytes, address, false);
  block.note_global(thread, GlobalUse::kAtomicRead, site, p, bytes);
  GlobalClocks& clocks = block.launch().clocks;
  {
    const std::lock_guard lock(clocks.mutex);
    copy_global(value, p, bytes);
    Synchronized{thread, address, order}.read(clocks);
  }
  block.note_load(thread, address, first_bits(value, bytes), site);
}

void store(void* p, const void* value, size_t bytes, int order, const Site& site) {
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.note_progress();
  if (!global_ok(block, thread, site, "writes", p, bytes, bytes)) return;
  const auto address = reinterpret_cast<uint64_t>(p);
  join_access(block, thread, Instruction::kStoreGlobal, site, bytes, address, false);
  block.note_global(thread, GlobalUse::kAtomic, site, p, bytes);
  GlobalClocks& clocks = block.launch().clocks;
  const std::lock_guard lock(clocks.mutex);
  copy_global(p, value, bytes);
  Synchronized{thread, address, order}.write(clocks, false);
}

uint32_t cluster_address(uint32_t address, int rank) {
  return (address & kOwnAddress) | static_cast<uint32_t>(rank + 1) << kRankShift;
}

int cluster_rank_of(uint32_t address) {
  const uint32_t rank = address >> kRankShift;
  return rank != 0 ? static_cast<int>(rank) - 1 : current_thread().block->rank();
}

void load_cluster(uint32_t address, void* value, size_t bytes, const Site& site) {
  const auto size = static_cast<uint32_t>(bytes);
  if (cluster_rank_of(address) == current_thread().block->rank())
    return detail::load_shared(value, address & kOwnAddress, bytes, site.line, site.file);
  Thread& thread = begin(site);
  std::memset(value, 0xff, bytes);
  Block* const owner = owner_of(thread, address, "reads", size, site);
  if (owner == nullptr) return;
  const uint32_t offset = address - kSharedBase;
  thread.block->note_shared(thread, GlobalUse::kRead, site, *owner, offset, size);
  std::memcpy(value, owner->shared() + offset, bytes);
  thread.block->note_load(thread, owner->shared_key(offset), first_bits(value, bytes), site);
}

void store_cluster(uint32_t address, const void* value, size_t bytes, const Site& site) {
  const auto size = static_cast<uint32_t>(bytes);
  if (cluster_rank_of(address) == current_thread().block->rank())
    return detail::store_shared(address & kOwnAddress, value, bytes, site.line, site.file);
  Thread& thread = begin(site);
  thread.block->note_progress();
  Block* const owner = owner_of(thread, address, "writes", size, site);
  if (owner == nullptr) return;
  const uint32_t offset = address - kSharedBase;
  thread.block->note_shared(thread, GlobalUse::kWrite, site, *owner, offset, size);
  if (thread.block->launch().run.hazards) owner->shadow().store_of_another(offset, size);
  std::memcpy(owner->shared() + offset, value, bytes);
}

void report(HazardKind kind, const std::string& what, const Site& site) {
  Thread& thread = current_thread();
  thread.block->report(kind, thread, site, 0, [&] { return what; });
}

}  // namespace emulator::lanes
