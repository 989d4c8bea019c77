#pragma once
// Finds races in a block's shared memory by happens-before, not by luck.
//
// What orders two accesses (CUDA programming guide, "Memory fence functions"; PTX ISA, "Memory
// consistency model"): program order within a thread; block_sync between all threads of the block;
// warp_sync between the lanes of a warp. ldmatrix, mma and shfl wait for all lanes but order no
// memory accesses. The bytes of a cp.async are written at some moment between its issue and the
// issuing thread's wait, and become visible to that thread only, at the wait. ldmatrix reads for
// all 32 lanes: what one lane wrote or waited for needs a warp_sync or block_sync before it.
//
// An access is therefore stamped with its block epoch (barriers passed), its warp epoch
// (warp_syncs passed), and its step: how many instructions its thread has executed since the last
// barrier. Two accesses without order race under every schedule; which of the two the emulator ran
// first is chance. So the steps decide how a race is named: they say which access comes first in
// the program, and the same kind is reported under every schedule.
//
// Memory is divided in granules of 2 bytes. Each holds the number of the last write and of up to
// two reads since the last barrier (by different warps, so that any later writer meets one of
// them that is not itself); the records behind the numbers are shared by all granules of an access.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/simt/hazard_log.hpp"

namespace fa::simt {

struct Access {
  int thread = 0;  // in its block
  uint32_t warp_epoch = 0;
  uint32_t step = 0;
  int64_t event_step = 0;  // counted from the block's start, as in the event log
  Site site;
};

class Shadow {
 public:
  explicit Shadow(HazardLog& log) : log_(log) {}

  void begin_block(int block, uint32_t smem_bytes);

  /// A write of `bytes` at `offset` (both in bytes from the start of dynamic shared memory, even,
  /// in bounds). Returns the number of its record.
  uint32_t store(const Access& access, uint32_t offset, uint32_t bytes);
  uint32_t issue_copy(const Access& access, uint32_t offset, uint32_t bytes, const void* source);
  /// The issuing thread's wait for the copy with that record.
  void land_copy(uint32_t record, const Access& wait);

  /// Starts a read instruction of one thread, or of a whole warp (`access.thread` is then any of
  /// its lanes). Returns its record, for use until the next barrier.
  uint32_t begin_read(const Access& access, bool whole_warp);
  /// Its bytes, or part of them; `thread` is the lane that gave the address.
  void read(uint32_t record, int thread, uint32_t offset, uint32_t bytes);

  void barrier();  // all threads passed block_sync
  void end_block() { barrier(); }
  /// The block ended in the middle: what its last epoch would have shown is not known.
  void give_up_block() { pending_.clear(); }

 private:
  enum class WriteState : uint8_t { kStored, kInFlight, kLanded };
  struct Write {
    Access access;  // the store, or the cp.async
    uint32_t epoch;
    uint32_t landed_epoch, landed_warp_epoch, landed_step;  // the wait
    WriteState state;
    uint32_t offset;
    const void* source;
  };
  struct Read {
    Access access;
    bool whole_warp;
    int other_thread;  // another lane that has read the same since the last warp_sync; -1: none
  };
  struct Pending {  // a read that only the rest of the epoch can judge
    uint32_t read, write, granule;
    int thread;
  };

  uint32_t add_write(const Write& write, uint32_t bytes);
  bool check_write(const Write& now, uint32_t granule, uint32_t before);
  bool check_reader(const Write& now, uint32_t granule, uint32_t read);
  bool check_read(uint32_t read, int thread, uint32_t granule, uint32_t write);
  bool before_read(int thread, uint32_t epoch, uint32_t warp_epoch, const Read& read) const;
  void remember_reader(uint32_t read, uint32_t granule);
  uint32_t merge_readers(uint32_t before, uint32_t now);
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
  uint32_t epoch_ = 0;
  std::vector<uint32_t> last_write_;             // [granules]; 0: never written
  std::vector<uint32_t> reader_, other_reader_;  // [granules]; below first_read_: none
  // Writes are numbered from 1. Those below first_write_ had landed before the last barrier: they
  // are ordered before everything to come, and their records are gone.
  std::vector<Write> writes_;  // a ring; its size is a power of two
  uint32_t first_write_ = 1, next_write_ = 1;
  std::vector<Read> reads_;  // since the last barrier; record i stands at i - first_read_
  uint32_t first_read_ = 1;
  std::vector<Pending> pending_;
};

}  // namespace fa::simt
