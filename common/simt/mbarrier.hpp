#pragma once
// mbarriers: objects in shared memory that count arrivals and bytes (PTX ISA, "Asynchronous
// barrier").
//
// A phase is complete when all its arrivals have come and as many bytes as it expects; the next one
// begins at once. Whoever waits gives the parity of a phase, no more: on hardware that is the
// current phase or the one before it, even if the waiter means an older one. Which one it means
// follows from what it knows: of k phases it knows, through whatever orders, that they are
// complete, so it asks for number k, or once more for k - 1. A barrier must not run two phases
// ahead of that: each wait has to be ordered before the end of the next phase, or chance decides
// what it waits for.
//
// Arrivals release what their thread did, a successful wait acquires it. Bytes that a bulk copy
// brings land when somebody waits for the phase that counts them, not before.

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

/// A tile on its way between global and shared memory.
struct TensorCopy {
  TensorBox map;
  int64_t at[TensorBox::kMaxRank] = {};  // coordinates of the box's first element
  uint32_t offset = 0;                   // in shared memory
  uint32_t record = 0;                   // in the shadow
  int phase = 0;                         // of its mbarrier; of a store: its group
  bool adds = false;                     // fp32 numbers to those that are there
  Site site = {};
};

/// Moves the bytes: what lies outside the tensor is zeros in shared memory, and is not stored; but
/// 16 bytes of which some lie in the tensor are stored whole. A copy that adds is one row.
void load_box(const TensorCopy& copy, unsigned char* shared);
void store_box(const TensorCopy& copy, const unsigned char* shared);

/// Calls f(address of the first byte, bytes) for each row of the box that lies in the tensor; of a
/// store, bytes are rounded up to 16.
void for_each_row(const TensorCopy& copy, GlobalUse use,
                  const std::function<void(const char*, size_t)>& f);

/// Notes the memory that a tensor map leads to. in_tensor_maps is true between the first byte of
/// any map and the last byte of any map, of all maps that the process has made.
void note_tensor_map(const TensorBox& map);
bool in_tensor_maps(uint64_t address);

class Mbarriers {
 public:
  explicit Mbarriers(Block& block) : block_(block) {}
  void clear() { barriers_.clear(); }

  // Each is executed by `thread`, at `site`; `offset` is the mbarrier's in shared memory.
  void init(Thread& thread, uint32_t offset, int count, const Site& site);
  void invalidate(Thread& thread, uint32_t offset, const Site& site);
  void arrive(Thread& thread, uint32_t offset, uint32_t expected_bytes, bool arrives,
              const Site& site);
  bool test(Thread& thread, uint32_t offset, int parity, const Site& site);
  void wait(Thread& thread, uint32_t offset, int parity, const Site& site);
  /// A bulk copy that reports its bytes there. Fills in its phase and its record.
  void load(Thread& thread, uint32_t offset, TensorCopy copy, const Site& site);
  /// Of those that `thread` has initialized.
  void fence_init(const Thread& thread);

  /// For a deadlock's report: what the mbarrier is still waiting for.
  std::string missing(int number) const;
  /// Has everybody arrived, so that only a wrong number of bytes can be the reason?
  bool mismatched(int number) const;
  /// At the end of a block: bytes that were expected and did not come, or the other way round.
  void report_leftovers(Thread& thread);

 private:
  struct Waited {  // for the phase that was completed last
    const Thread* thread;
    uint32_t time;
    Site site;
  };
  struct Mbarrier {
    uint32_t offset;
    int number, engine;
    bool alive = true;
    uint32_t first_time = 1;  // of its engine, at phase 0
    int count = 0, pending = 0;
    int64_t missing_bytes = 0;
    int completed = 0;  // phases
    Access init = {};
    uint32_t init_record = 0;
    uint32_t fence_time = 0;  // of init.thread's warp; 0: no fence yet
    Clock arriving = {},
          released = {};   // what those have done that arrived for this phase; for all before
    Clock issued = {};     // and those that issued its copies: for the order of phases only
    Site bytes_site = {};  // of the last expect_tx or copy
    std::vector<Thread*> waiting = {};
    std::vector<Waited> waited = {};
    std::vector<TensorCopy> copies = {};  // that have not landed
  };

  Mbarrier* find(Thread& thread, uint32_t offset, const char* verb, const Site& site);
  void note(const Thread& thread, const Mbarrier& barrier, int phase, int parity = -1) const;
  int checked_parity(const Mbarrier& barrier, Thread& thread, int parity, const Site& site);
  int wanted_phase(const Mbarrier& barrier, const Thread& thread, int parity) const;
  bool passes(Mbarrier& barrier, Thread& thread, int parity, const Site& site);
  void complete_if_ready(Mbarrier& barrier);
  void pass(Mbarrier& barrier, Thread& thread, const Site& site);
  void count_bytes(Mbarrier& barrier, const Thread& thread, int64_t bytes, const Site& site);

  Block& block_;
  std::deque<Mbarrier> barriers_;  // stay where they are; few, so that they are searched one by one
};

}  // namespace fa::simt
