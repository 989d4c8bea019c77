#pragma once
// An mbarrier is an object in shared memory that counts arrivals and bytes (PTX ISA, "Parallel
// Synchronization and Communication Instructions: mbarrier").
//
// A phase is complete when all its arrivals and all the bytes that it expects have come. The next
// phase begins immediately. A wait passes only the parity of a phase. Hardware takes that as the
// current phase or the previous one, even if the waiting thread means an older one. The emulator
// can tell which phase a thread means, because it tracks how many phases the thread knows to be
// complete. After k of them, it waits for phase k, or once more for phase k - 1. The mbarrier must
// not run two phases ahead of that. Therefore each wait has to be ordered before the end of the
// next phase, because otherwise timing decides which phase it waits for.
//
// An arrival releases what its thread did before, and a successful wait acquires it. The bytes of a
// bulk copy land only when a thread waits for the phase that counts them.

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "common/simt/clock.hpp"
#include "common/simt/global_log.hpp"
#include "common/simt/shadow.hpp"
#include "common/tensor_map.hpp"

namespace fa::simt {

class Block;
struct Thread;

/// A box on its way between global and shared memory, or bytes between the shared memory of two
/// blocks of a cluster.
struct TensorCopy {
  TensorBox map;
  int64_t at[TensorBox::kMaxRank] = {};  // coordinates of the box's first element
  uint32_t offset = 0;                   // offset in dynamic shared memory
  uint32_t record = 0;                   // number of the record in the shadow memory
  int phase = 0;                         // phase of a load's mbarrier, or commit group of a store
  bool adds = false;                     // adds fp32 values to the existing ones
  Block* source = nullptr;  // the block whose shared memory it reads, or nullptr for the tensor
  uint32_t from = 0;        // offset there
  Site site = {};
};

/// Execute a copy. In a load, elements outside the tensor become zeros. In a store they are not
/// written, but a unit of 16 bytes that is partly inside the tensor is stored whole. A copy with
/// `adds` has a single row.
void load_box(const TensorCopy& copy, unsigned char* shared);
void store_box(const TensorCopy& copy, const unsigned char* shared);

/// Calls f(address of the first byte, bytes) for each row of the box that overlaps the tensor. For
/// a store, bytes are rounded up to 16.
void for_each_row(const TensorCopy& copy, GlobalUse use,
                  const std::function<void(const char*, size_t)>& f);

class Mbarriers {
 public:
  explicit Mbarriers(Block& block) : block_(block) {}
  void clear() { barriers_.clear(); }

  // Instructions on the mbarrier at `offset` in shared memory, executed by `thread` at `site`.
  void init(Thread& thread, uint32_t offset, int count, const Site& site);
  void invalidate(Thread& thread, uint32_t offset, const Site& site);
  void arrive(Thread& thread, uint32_t offset, uint32_t expected_bytes, bool arrives,
              const Site& site);
  bool test(Thread& thread, uint32_t offset, int parity, const Site& site);
  void wait(Thread& thread, uint32_t offset, int parity, const Site& site);
  /// Registers a bulk copy that reports its bytes to this mbarrier. Fills in its phase and its
  /// record.
  void load(Thread& thread, uint32_t offset, TensorCopy copy, const Site& site);
  /// Makes the mbarriers that `thread` initialized visible to bulk copies.
  void fence_init(const Thread& thread);

  /// Returns what the mbarrier is still waiting for, for the report of a deadlock.
  std::string missing(int number) const;
  /// True if all arrivals have come, so that only a wrong number of bytes blocks the phase.
  bool mismatched(int number) const;
  /// Reports, at the end of a block, expected bytes that did not come and bytes that were not
  /// expected.
  void report_leftovers(Thread& thread);

 private:
  struct Waited {  // a wait for the phase that was completed last
    const Thread* thread;
    uint32_t time;
    Site site;
  };
  struct Mbarrier {
    uint32_t offset;
    int number, engine;
    bool alive = true;
    uint32_t first_time = 1;  // time of the engine at phase 0
    int count = 0, pending = 0;
    int64_t missing_bytes = 0;
    int completed = 0;  // completed phases
    Access init = {};
    uint32_t init_record = 0;
    uint32_t fence_time = 0;  // time of init.thread's warp at the fence, or 0 before the fence
    Clock arriving = {}, released = {};  // what the arriving threads had done, for this phase and
                                         // for all earlier ones
    Clock issued = {};     // what the threads that issued its copies had done; only orders phases
    Site bytes_site = {};  // place of the last expect_tx or copy
    std::vector<Thread*> waiting = {};
    std::vector<Waited> waited = {};
    std::vector<TensorCopy> copies = {};               // not landed yet
    std::vector<std::pair<Block*, int>> readers = {};  // blocks whose shared memory its copies
                                                       // read, and their engines for these reads
  };

  Observer observer_in(const Thread& thread) const;
  Mbarrier* find(Thread& thread, uint32_t offset, const char* verb, const Site& site);
  void note(const Thread& thread, const Mbarrier& barrier, int phase, int parity = -1) const;
  int checked_parity(const Mbarrier& barrier, Thread& thread, int parity, const Site& site);
  int wanted_phase(const Mbarrier& barrier, const Thread& thread, int parity) const;
  bool passes(Mbarrier& barrier, Thread& thread, int parity, const Site& site);
  void complete_if_ready(Mbarrier& barrier);
  static void begin_read(Mbarrier& barrier, const Thread& thread, const TensorCopy& copy,
                         Access access);
  void pass(Mbarrier& barrier, Thread& thread, const Site& site);
  void count_bytes(Mbarrier& barrier, const Thread& thread, int64_t bytes, const Site& site);

  Block& block_;
  std::deque<Mbarrier> barriers_;  // a deque, so that elements do not move; searched linearly, as
                                   // there are few
};

}  // namespace fa::simt
