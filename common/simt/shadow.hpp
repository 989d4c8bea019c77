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

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/simt/clock.hpp"
#include "common/simt/hazard_log.hpp"

namespace fa::simt {

/// How an access goes to memory. What the async proxy (bulk copies, wgmma) does is ordered with
/// ordinary accesses by a proxy fence only; no instruction uses it yet.
enum class Proxy : uint8_t { kGeneric, kAsync };

struct Access {
  int thread = 0;     // in its block
  uint32_t time = 0;  // of its warp
  uint32_t step = 0;
  int64_t event_step = 0;  // counted from the block's start, as in the event log
  Site site;
  Proxy proxy = Proxy::kGeneric;
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

  /// A read by one thread.
  void load(const Access& access, const Observer& reader, uint32_t offset, uint32_t bytes);

  /// Starts a read instruction of a whole warp; `access.thread` is any of its lanes. Returns its
  /// record, for use until the next block_sync.
  uint32_t begin_read(const Access& access);
  /// Its bytes, or part of them, read by `reader`; `thread` is the lane that gave the address.
  void read(uint32_t record, const Observer& reader, int thread, uint32_t offset, uint32_t bytes);

  void barrier();  // all threads of the block have arrived at block_sync
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
    const void* source;
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
};

}  // namespace fa::simt
