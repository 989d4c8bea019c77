#pragma once
// Finds races in a block's shared memory by happens-before, not by luck.
//
// What orders two accesses (CUDA programming guide, "Memory fence functions"; PTX ISA, "Memory
// consistency model"): program order within a thread; barriers between the warps that arrive and
// those that wait; warp_sync between the lanes of a warp. ldmatrix, mma and shfl wait for all lanes
// but order no memory accesses. The bytes of a cp.async are written at some moment between its
// issue and the issuing thread's wait, and become visible to that thread only, at the wait.
// ldmatrix reads for all 32 lanes: what one lane wrote or waited for needs a warp_sync or a barrier
// before it.
//
// An access is therefore stamped with its warp's time, and whoever comes later asks its own clock
// (clock.hpp) whether it knows of that time: FastTrack's way (Flanagan and Freund, 2009). Two
// accesses without order race under every schedule; which of the two the emulator ran first is
// chance. So their steps decide how a race is named: how many instructions each thread had executed
// since its last barrier says which access comes first in the program, and the same kind is
// reported under every schedule.
//
// Memory is divided in granules of 2 bytes. Each holds the number of the last write, and for each
// warp that of its last read; the records behind the numbers are shared by all granules of an
// access. A block_sync orders everything: what came before it need not be looked at again, so most
// accesses are judged by comparing numbers, and no clock is asked.
//
// Bulk copies and wgmma read and write beside the threads, between the instruction that starts them
// and somebody's wait. Their accesses bear the time of an engine (clock.hpp): who has not waited,
// or learned from somebody who has, does not know of it.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/simt/clock.hpp"
#include "common/simt/hazard_log.hpp"
#include "common/simt/instructions.hpp"

namespace fa::simt {

struct Access {
  int thread = 0;     // in its block
  uint32_t time = 0;  // of its warp
  uint32_t step = 0;
  int64_t event_step = 0;  // counted from the block's start, as in the event log
  Site site;
  // Of bulk copies and wgmma: who does it, and when it is done. They go through the async proxy,
  // which sees what threads have written only behind a proxy fence of theirs.
  int16_t engine = -1;
  Instruction engine_work{};
  uint32_t engine_time = 0;
};

class Shadow {
 public:
  explicit Shadow(HazardLog& log) : log_(log) {}

  void begin_block(int block, uint32_t smem_bytes, int warps);

  /// A write of `bytes` at `offset` (both in bytes from the start of dynamic shared memory, even,
  /// in bounds) by `writer`. Returns the number of its record.
  uint32_t store(const Access& access, const Observer& writer, uint32_t offset, uint32_t bytes);
  uint32_t issue_copy(const Access& access, const Observer& writer, uint32_t offset, uint32_t bytes,
                      const void* source);
  /// The issuing thread's wait for the copy with that record.
  void land_copy(uint32_t record, const Access& wait);

  /// A bulk copy to shared memory, issued by `writer`. `tensor` is what it is a tile of.
  uint32_t bulk_write(const Access& access, const Observer& writer, uint32_t offset, uint32_t bytes,
                      const void* tensor);
  /// Its bytes are there.
  void land_bulk(uint32_t record) { write_of(record).state = WriteState::kLanded; }
  /// Starts a read by wgmma or by a bulk copy; returns its record, for use until end_async_read.
  uint32_t begin_async_read(const Access& access);
  /// Its bytes, which all of `issuers` must know. Returns the tensor that a bulk copy brought them
  /// from, or nullptr.
  const void* async_read(uint32_t record, std::span<const Observer> issuers, uint32_t offset,
                         uint32_t bytes);
  void end_async_read() { --async_reads_; }  // its engine has done it
  /// A proxy fence for shared memory, by this thread at this time of its warp.
  void fence_proxy(int thread, uint32_t time, const Observer& by) {
    shared_fences_.add(thread, time, by);
  }
  /// True if a fence stands between each ordinary write of these bytes and the async proxy.
  bool fenced(std::span<const Observer> issuers, uint32_t offset, uint32_t bytes) const {
    return unfenced_granule(issuers, offset, bytes) < 0;
  }

  /// The same for global memory: notes a fence; notes an ordinary write; reports the first ordinary
  /// write of this block without a fence between it and a copy by the async proxy.
  void fence_global_proxy(int thread, uint32_t time, const Observer& by) {
    global_fences_.add(thread, time, by);
  }
  void global_write(const Access& access, uint64_t address, uint32_t bytes);
  bool has_global_writes() const { return !pages_.empty(); }
  void check_global_fence(const Access& access, const Observer& issuer, uint64_t address,
                          uint64_t bytes);
  /// Has nobody written there since?
  bool last_written_by(uint32_t record, uint32_t offset, uint32_t bytes) const;

  /// A read by one thread.
  void load(const Access& access, const Observer& reader, uint32_t offset, uint32_t bytes);

  /// Starts a read instruction of a whole warp; `access.thread` is any of its lanes. Returns its
  /// record, for use until the next block_sync.
  uint32_t begin_read(const Access& access);
  /// Its bytes, or part of them, read by `reader`; `thread` is the lane that gave the address.
  void read(uint32_t record, const Observer& reader, int thread, uint32_t offset, uint32_t bytes);

  void barrier();  // all threads of the block have arrived at block_sync, or cluster_sync
  void end_block() { barrier(); }
  /// The block ended in the middle: what its last epoch would have shown is not known.
  void give_up_block() { pending_.clear(); }

 private:
  enum class WriteState : uint8_t { kStored, kInFlight, kLanded };
  struct Write {
    Access access;                                    // the store, or the cp.async
    uint32_t landed_epoch, landed_time, landed_step;  // the wait
    WriteState state;
    uint32_t offset;
    const void* source;   // where the byte at `offset` comes from; of a bulk copy: its tensor
    uint32_t before = 0;  // of a bulk copy: the last write of its first bytes
  };
  struct Read {
    Access access;
    bool whole_warp;
    uint32_t lanes;     // that have read the same at the same time, if not the whole warp
    uint32_t previous;  // an earlier read of the same warp, not ordered before this one; 0: none
    uint32_t offset = 0, bytes = 0, write = 0;  // of one thread's load; whose bytes it saw
  };
  struct Pending {  // a read that only the rest of the epoch can judge
    uint32_t read, write, granule;
    int thread;
  };

  uint32_t add_read(const Read& read);
  uint32_t add_write(const Write& write, const Observer& writer, uint32_t bytes);
  bool check_write(const Write& now, const Observer& writer, uint32_t granule, uint32_t before);
  bool check_readers(const Write& now, const Observer& writer, uint32_t granule, uint32_t read);
  void resolve_uninitialized(uint32_t granule);
  int64_t unfenced_granule(std::span<const Observer> issuers, uint32_t offset,
                           uint32_t bytes) const;
  void check_fence(const Access& access, std::span<const Observer> issuers, uint32_t offset,
                   uint32_t bytes);
  static HazardKind name_of_race(const Access& read, const Write& write);
  bool check_read(uint32_t read, const Observer& reader, int thread, uint32_t granule,
                  uint32_t write);
  uint32_t merge_reads(uint32_t before, uint32_t now, const Observer& reader);
  void resolve_pending();
  // Reports a read and a write, or a write and an older one, that collide.
  void report_read(HazardKind kind, const Read& read, int thread, uint32_t granule,
                   const Write* write);
  void report_write(const Write& now, const Write& old, uint32_t granule);
  void report(HazardKind kind, const Access& where, const Access* other, uint32_t granule,
              const std::function<std::string()>& text);
  std::string place(uint32_t granule, const Write* write) const;

  Write& write_of(uint32_t id) { return writes_[id & (writes_.size() - 1)]; }
  Read& read_of(uint32_t id) { return reads_[id - first_read_]; }

  HazardLog& log_;
  int block_ = 0;
  uint32_t epoch_ = 0;                            // block_syncs so far
  std::vector<uint32_t> last_write_;              // [granules]; 0: never written
  std::vector<std::vector<uint32_t>> last_read_;  // [warps][granules]; below first_read_: none
  // Writes are numbered from 1. Those below first_write_ had landed before the last barrier: they
  // are ordered before everything to come, and their records are gone.
  std::vector<Write> writes_;  // a ring; its size is a power of two
  uint32_t first_write_ = 1, next_write_ = 1;
  std::vector<Read> reads_;  // since the last block_sync; record i stands at i - first_read_
  uint32_t first_read_ = 1;
  struct {
    uint32_t before = 0, now = 0, id = 0;
  } merged_;  // by the last merge_reads: the next granule of the access mostly asks the same
  std::vector<Pending> pending_;
  std::vector<uint32_t> judged_;  // by add_write, for each row of last_read_
  int async_reads_ = 0;           // going on
  // An ordinary write, as the async proxy's checks need it.
  struct Stamp {
    int thread = -1;      // -1: no write, or a bulk copy's
    uint32_t fences = 0;  // number of fences that the thread had executed before it
    uint32_t time = 0;    // of its warp
    bool operator==(const Stamp&) const = default;
  };
  // The proxy fences of all threads. A fence covers what its thread did before, and what it knew
  // of.
  class Fences {
   public:
    void begin_block(int threads) { fences_.assign(static_cast<size_t>(threads), {}); }
    void add(int thread, uint32_t time, const Observer& by);
    uint32_t count(int thread) const {
      return static_cast<uint32_t>(fences_[static_cast<size_t>(thread)].size());
    }
    /// True if a fence stands between the write and what `issuer` does now.
    bool between(const Stamp& write, const Observer& issuer) const;

   private:
    struct Fence {
      uint32_t time;
      std::shared_ptr<const Clock> known;
    };
    std::vector<std::vector<Fence>> fences_;  // [threads]
    std::shared_ptr<const Clock> last_known_;
  };
  Stamp stamp_of(const Access& access, uint32_t time, const Fences& fences) const {
    return {access.thread, fences.count(access.thread), time};
  }
  Fences shared_fences_, global_fences_;
  std::vector<Stamp> stamps_;  // [numbers of writes], since the block began

  // The last ordinary write to each 16 bytes of global memory that tensor maps lead to.
  static constexpr uint64_t kPageBytes = 4096, kUnitBytes = 16;
  struct GlobalWrite {
    Stamp stamp;
    Site site;
  };
  using Page = std::array<GlobalWrite, kPageBytes / kUnitBytes>;
  std::unordered_map<uint64_t, Page> pages_;
  std::pair<uint64_t, Page*> last_page_{};
};

}  // namespace fa::simt
