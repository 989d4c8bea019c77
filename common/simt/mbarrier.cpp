#include "common/simt/mbarrier.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "common/simt/begin.hpp"
#include "common/simt/block.hpp"

namespace fa::simt {

namespace {

constexpr uint32_t kMbarrierBytes = 8;
constexpr int64_t kMostBytes = (1 << 20) - 1;  // maximum of a phase's missing bytes

std::string at_byte(uint32_t offset) { return "the mbarrier at byte " + std::to_string(offset); }

std::string phase_text(int phase) {
  return "phase " + std::to_string(phase) + " (parity " + std::to_string(phase & 1) + ")";
}

}  // namespace

void Mbarriers::init(Thread& thread, uint32_t offset, int count, const Site& site) {
  Mbarrier* barrier = nullptr;
  for (Mbarrier& known : barriers_) {
    if (known.offset == offset) barrier = &known;
  }
  if (barrier == nullptr) {
    barriers_.push_back({offset, static_cast<int>(barriers_.size()), block_.new_engine()});
    barrier = &barriers_.back();
  } else {
    if (barrier->alive) {
      block_.report(HazardKind::kWriteWrite, thread, site, offset, [&] {
        return "initializes " + at_byte(offset) + " again without an mbarrier_inval before";
      });
    }
    Mbarrier fresh{offset, barrier->number, barrier->engine};
    fresh.first_time = barrier->first_time + static_cast<uint32_t>(barrier->completed) + 1;
    fresh.readers = barrier->readers;
    *barrier = std::move(fresh);
  }
  barrier->count = barrier->pending = count;
  barrier->init = stamp(thread, site);
  barrier->bytes_site = site;
  note(thread, *barrier, 0);
  if (block_.launch().run.hazards) {
    barrier->init_record =
        block_.shadow().store(barrier->init, observer(thread), offset, kMbarrierBytes);
  }
}

// Returns the mbarrier at `offset`. Ends the block if there is none, or if the thread does not know
// of its initialization, because it would continue with invalid data.
Mbarriers::Mbarrier* Mbarriers::find(Thread& thread, uint32_t offset, const char* verb,
                                     const Site& site) {
  Mbarrier* found = nullptr;
  for (Mbarrier& barrier : barriers_) {
    if (barrier.offset == offset && barrier.alive) found = &barrier;
  }
  const bool hazards = block_.launch().run.hazards;
  if (found == nullptr ||
      (hazards && !observer_in(thread).knows(found->init.thread, found->init.time))) {
    thread.block->give_up(HazardKind::kUninitializedRead, thread, site, [&] {
      return std::string(verb) + " " + at_byte(offset) +
             ", and no mbarrier_init is ordered before that";
    });
  }
  if (hazards && !block_.shadow().last_written_by(found->init_record, offset, kMbarrierBytes)) {
    thread.block->report(HazardKind::kWriteWrite, thread, site, offset, [&] {
      return std::string(verb) + " " + at_byte(offset) +
             ", whose bytes have been overwritten since " + to_string(found->init.site);
    });
  }
  return found;
}

// Returns the knowledge of `thread`, which may be in another block of the cluster, about this
// block.
Observer Mbarriers::observer_in(const Thread& thread) const {
  if (thread.block == &block_) return observer(thread);
  static const Clock kNothing;
  const Clock* known = Block::knowledge_of(thread, block_.index());
  return {known != nullptr ? *known : kNothing};
}

// Fills in the mbarrier's fields of an event.
void Mbarriers::note(const Thread& thread, const Mbarrier& barrier, int phase, int parity) const {
  if (WarpAccess* access = thread.block->speaks_for(thread)) {
    access->mbarrier = static_cast<int>(barrier.offset);
    access->phase = phase;
    access->parity = parity;
  }
}

void Mbarriers::invalidate(Thread& thread, uint32_t offset, const Site& site) {
  find(thread, offset, "invalidates", site)->alive = false;
}

void Mbarriers::fence_init(const Thread& thread) {
  for (Mbarrier& barrier : barriers_) {
    if (barrier.alive && barrier.fence_time == 0 && barrier.init.thread == thread.index) {
      barrier.fence_time = thread.warp->time;
    }
  }
}

void Mbarriers::count_bytes(Mbarrier& barrier, const Thread& thread, int64_t bytes,
                            const Site& site) {
  barrier.missing_bytes += bytes;
  barrier.bytes_site = site;
  if (std::abs(barrier.missing_bytes) <= kMostBytes) return;
  thread.block->report(HazardKind::kTransactionMismatch, thread, site, barrier.offset, [&] {
    return "makes " + at_byte(barrier.offset) + " expect " + std::to_string(barrier.missing_bytes) +
           " missing bytes: the maximum is 1048575";
  });
}

void Mbarriers::arrive(Thread& thread, uint32_t offset, uint32_t expected_bytes, bool arrives,
                       const Site& site) {
  Mbarrier& barrier = *find(thread, offset, "arrives at", site);
  note(thread, barrier, barrier.completed);
  if (expected_bytes != 0) count_bytes(barrier, thread, expected_bytes, site);
  if (arrives) {
    if (barrier.pending == 0) {
      thread.block->report(HazardKind::kTransactionMismatch, thread, site, offset, [&] {
        return "arrives at " + at_byte(offset) + ", where all " + std::to_string(barrier.count) +
               " have arrived for " + phase_text(barrier.completed) + " and " +
               std::to_string(barrier.missing_bytes) + " bytes are missing";
      });
    } else {
      --barrier.pending;
    }
    barrier.arriving.join(block_.release_from(thread));
  }
  complete_if_ready(barrier);
}

void Mbarriers::load(Thread& thread, uint32_t offset, TensorCopy copy, const Site& site) {
  Mbarrier& barrier = *find(thread, offset, "copies a tile for", site);
  note(thread, barrier, barrier.completed);
  const uint32_t bytes = copy.map.box_bytes();
  copy.phase = barrier.completed;
  if (block_.launch().run.hazards) {
    Access access = stamp(thread, site);
    access.engine = static_cast<int16_t>(barrier.engine);
    access.engine_time = barrier.first_time + static_cast<uint32_t>(barrier.completed);
    access.engine_work = copy.source != nullptr ? Instruction::kBulkCopy : Instruction::kTmaLoad;
    const Observer issuer = observer_in(thread);
    const bool fenced =
        barrier.fence_time != 0 && issuer.knows(barrier.init.thread, barrier.fence_time);
    if (!fenced && !block_.shadow().fenced({&issuer, 1}, offset, kMbarrierBytes)) {
      thread.block->report(HazardKind::kMissingProxyFence, thread, site, offset, [&] {
        return "copies a tile for " + at_byte(offset) + ", initialized at " +
               to_string(barrier.init.site) +
               ": no fence_mbarrier_init of that thread is between the two";
      });
    }
    copy.record = block_.shadow().bulk_write(access, issuer, copy.offset, bytes, copy.map.data);
    if (copy.source != nullptr) begin_read(barrier, thread, copy, access);
    const bool own = thread.block == &block_;  // otherwise only the write is checked
    for_each_row(copy, GlobalUse::kRead, [&](const char* row, size_t row_bytes) {
      if (own)
        block_.note_async_global(thread, GlobalUse::kRead, site, barrier.engine, access.engine_time,
                                 row, row_bytes);
    });
  }
  std::memset(block_.shared() + copy.offset, 0xff, bytes);  // a read before the wait returns NaN
  barrier.copies.push_back(copy);
  barrier.issued.join(block_.release_from(thread));
  count_bytes(barrier, thread, -int64_t{bytes}, site);
  complete_if_ready(barrier);
}

// Starts the read of the source of a copy, in the shared memory of the block that issues it. The
// read has ended when the mbarrier's phase has.
void Mbarriers::begin_read(Mbarrier& barrier, const Thread& thread, const TensorCopy& copy,
                           Access access) {
  auto reader = std::find_if(barrier.readers.begin(), barrier.readers.end(),
                             [&](const auto& each) { return each.first == copy.source; });
  if (reader == barrier.readers.end())
    reader = barrier.readers.insert(reader, {copy.source, copy.source->new_engine()});
  access.engine = static_cast<int16_t>(reader->second);
  Shadow& shadow = copy.source->shadow();
  const Observer issuer = observer(thread);
  shadow.async_read(shadow.begin_async_read(access), {&issuer, 1}, copy.from, copy.map.box_bytes());
  copy.source->note_copy_out({reader->second, access.engine_time, thread.index, access.site});
}

void Mbarriers::complete_if_ready(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.missing_bytes != 0) return;
  ++barrier.completed;
  barrier.pending = barrier.count;
  barrier.released.join(barrier.arriving);
  barrier.released.learn_warp(barrier.engine,
                              barrier.first_time + static_cast<uint32_t>(barrier.completed));
  for (const auto& [source, engine] : barrier.readers) {
    auto known = std::make_shared<Foreign>();
    Clock& clock = source == &block_ ? barrier.released : known->blocks[source->index()];
    clock.learn_warp(engine, barrier.first_time + static_cast<uint32_t>(barrier.completed));
    barrier.released.foreign = simt::join(barrier.released.foreign, known);
  }
  Clock order = barrier.released;
  order.join(barrier.issued);
  barrier.arriving.clear();
  for (const Waited& waited : barrier.waited) {
    const auto [first, last] = block_.converged_warps(waited.thread->warp->index);
    if (order.knows_any_lane(first, last, waited.time)) continue;
    block_.report(HazardKind::kWaitWrongPhase, *waited.thread, waited.site, barrier.offset, [&] {
      return "waits for " + phase_text(barrier.completed - 2) + " of " + at_byte(barrier.offset) +
             ", but nothing orders that before the end of " + phase_text(barrier.completed - 1) +
             ": by then the same parity means another phase";
    });
  }
  barrier.waited.clear();
  std::vector<Thread*> waiting;
  waiting.swap(barrier.waiting);
  for (Thread* thread : waiting) {
    pass(barrier, *thread, thread->wait.site);
    block_.wake(*thread);
  }
}

// PTX defines the parities 0 and 1 only. Reports any other value and returns it modulo 2.
int Mbarriers::checked_parity(const Mbarrier& barrier, Thread& thread, int parity,
                              const Site& site) {
  if ((parity & ~1) != 0) {
    block_.report(HazardKind::kWaitWrongPhase, thread, site, barrier.offset, [&] {
      return "waits for parity " + std::to_string(parity) + " of " + at_byte(barrier.offset) +
             ": a parity is 0 or 1, the last bit of the phase's number";
    });
  }
  return parity & 1;
}

// Returns the number of the phase that `thread` means by `parity`; -1 is the phase before the
// first.
int Mbarriers::wanted_phase(const Mbarrier& barrier, const Thread& thread, int parity) const {
  uint32_t known = thread.warp->clock.time_of(barrier.engine);
  if (thread.clock != nullptr) known = std::max(known, thread.clock->time_of(barrier.engine));
  const int complete =
      known > barrier.first_time ? static_cast<int>(known - barrier.first_time) : 0;
  return (complete & 1) == parity ? complete : complete - 1;
}

bool Mbarriers::passes(Mbarrier& barrier, Thread& thread, int parity, const Site& site) {
  const int wanted = wanted_phase(barrier, thread, parity);
  if (barrier.completed >= wanted + 2) {
    block_.report(HazardKind::kWaitWrongPhase, thread, site, barrier.offset, [&] {
      return "waits for " + phase_text(wanted) + " of " + at_byte(barrier.offset) + ", but " +
             phase_text(wanted + 1) + " is complete as well: the same parity now means phase " +
             std::to_string(wanted + 2);
    });
    return true;  // continue as if the wait had come in time
  }
  return (barrier.completed & 1) != parity;
}

// Completes the wait of `thread`: it learns what the arriving threads did, and the bytes land.
void Mbarriers::pass(Mbarrier& barrier, Thread& thread, const Site& site) {
  barrier.waited.push_back({&thread, thread.warp->time, site});
  const auto landed =
      std::partition(barrier.copies.begin(), barrier.copies.end(),
                     [&](const TensorCopy& copy) { return copy.phase >= barrier.completed; });
  for (auto copy = landed; copy != barrier.copies.end(); ++copy) {
    load_box(*copy, block_.shared());
    if (block_.launch().run.hazards) block_.shadow().land_bulk(copy->record);
  }
  barrier.copies.erase(landed, barrier.copies.end());

  if (barrier.completed == 0) return;
  Warp& warp = *thread.warp;
  const uint32_t now = barrier.first_time + static_cast<uint32_t>(barrier.completed);
  if (warp.clock.time_of(barrier.engine) >= now) return;
  block_.acquire(thread, barrier.released);
  // After all its lanes have waited for this phase, the warp knows it. wgmma and ldmatrix use what
  // the warp knows. Lanes mostly wait in order, so the last one is asked first.
  for (int lane = warp.lanes; lane-- > 0;) {
    const Clock* clock = warp.first[lane].clock.get();
    if (clock == nullptr || clock->time_of(barrier.engine) < now) return;
  }
  warp.clock.join(barrier.released);
  for (int lane = 0; lane < warp.lanes; ++lane) {
    std::unique_ptr<Clock>& clock = warp.first[lane].clock;
    if (clock->covered_by(warp.clock)) clock.reset();
  }
}

bool Mbarriers::test(Thread& thread, uint32_t offset, int parity, const Site& site) {
  Mbarrier& barrier = *find(thread, offset, "waits for", site);
  parity = checked_parity(barrier, thread, parity, site);
  note(thread, barrier, wanted_phase(barrier, thread, parity), parity);
  if ((barrier.completed & 1) == parity) return false;  // a test may refer to any phase
  pass(barrier, thread, site);
  return true;
}

void Mbarriers::wait(Thread& thread, uint32_t offset, int parity, const Site& site) {
  Mbarrier& barrier = *find(thread, offset, "waits for", site);
  parity = checked_parity(barrier, thread, parity, site);
  note(thread, barrier, wanted_phase(barrier, thread, parity), parity);
  if (passes(barrier, thread, parity, site)) {
    pass(barrier, thread, site);
    return;
  }
  barrier.waiting.push_back(&thread);
  Wait wait{Instruction::kMbarrierWait, site};
  wait.mbarrier = barrier.number;
  block_.park(thread, wait);
}

std::string Mbarriers::missing(int number) const {
  const Mbarrier& barrier = barriers_[static_cast<size_t>(number)];
  std::string text = at_byte(barrier.offset) + ", whose " + phase_text(barrier.completed) + " ";
  if (barrier.pending > 0) {
    text += "is missing " + std::to_string(barrier.pending) + " of " +
            std::to_string(barrier.count) + " arrivals";
  }
  if (barrier.missing_bytes > 0) {
    text += (barrier.pending > 0 ? " and " : "is missing ") +
            std::to_string(barrier.missing_bytes) + " bytes";
  } else if (barrier.missing_bytes < 0) {
    text += (barrier.pending > 0 ? " and has " : "has ") + std::to_string(-barrier.missing_bytes) +
            " bytes more than it expects";
  }
  return text;
}

bool Mbarriers::mismatched(int number) const {
  const Mbarrier& barrier = barriers_[static_cast<size_t>(number)];
  return barrier.pending == 0 && barrier.missing_bytes != 0;
}

void Mbarriers::report_leftovers(Thread& thread) {
  for (const Mbarrier& barrier : barriers_) {
    if (!barrier.alive || barrier.missing_bytes == 0) continue;
    block_.report(HazardKind::kTransactionMismatch, thread, barrier.bytes_site, barrier.offset,
                  [&] { return "ends, and " + missing(barrier.number) + ", is left incomplete"; });
  }
}

}  // namespace fa::simt
