#pragma once
// Detects races in a block's shared memory from the order that synchronization guarantees
// (happens-before), so that the result does not depend on timing.
//
// The order of two accesses comes from (CUDA programming guide, "Memory fence functions"; PTX ISA,
// "Memory consistency model"): program order within a thread, barriers between the warps that
// arrive and those that wait, and warp_sync between the lanes of a warp. ldmatrix, mma and shfl
// wait for all lanes but order no memory accesses. The bytes of a cp.async are written at some
// moment between its issue and the issuing thread's wait. The wait makes them visible to that
// thread only. ldmatrix reads for all 32 lanes, so it needs a warp_sync or a barrier after one
// lane's store or wait.
//
// Each access is stamped with the time of its warp. A later access looks that time up in its own
// clock (clock.hpp), as in FastTrack (Flanagan and Freund, 2009). Two unordered accesses race under
// every schedule, but chance decides which of them the emulator ran first. The name of a race must
// not depend on that, so it is derived from the steps. The number of instructions that each thread
// had executed since its last barrier tells which access comes first in the program.
//
// Memory is divided into granules of 2 bytes. Each granule holds the number of its last write and,
// for each warp, of its last read. All granules of an access share the record with that number. A
// block_sync orders everything before it, so older accesses need no further check. Therefore most
// checks only compare numbers and read no clock.
//
// Bulk copies and wgmma access memory asynchronously, between the instruction that issues them and
// the wait of some thread. Their accesses carry the time of an engine (clock.hpp). A thread knows
// about them only if it has waited, or has synchronized with a thread that has.

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
  int thread = 0;     // index in the block
  uint32_t time = 0;  // time of its warp
  uint32_t step = 0;
  // For bulk copies and wgmma, the time at which the engine is done, the engine and its
  // instruction. They use the async proxy, which sees a thread's ordinary writes only after a proxy
  // fence by that thread.
  uint32_t engine_time = 0;
  int64_t event_step = 0;  // counted from the start of the block, as in the event log
  Site site;
  int16_t engine = -1;
  Instruction engine_work{};
  bool atomic = false;      // two atomic accesses do not race
  bool same_value = false;  // a store that leaves the bytes as they are
};

class Shadow {
 public:
  explicit Shadow(HazardLog& log) : log_(log) {}

  /// Accesses are judged for each granule of 1, 2 or 4 bytes, and offsets and sizes are multiples
  /// of it. Without async_proxy, no bulk copy and no wgmma follows.
  void begin_block(int block, uint32_t smem_bytes, int warps, int granule_bytes = 2,
                   bool async_proxy = true);

  /// Records a write of `bytes` at `offset` by `writer`. Both count bytes from the start of dynamic
  /// shared memory, are even and in bounds. Returns the number of the record.
  uint32_t store(const Access& access, const Observer& writer, uint32_t offset, uint32_t bytes) {
    new_write(access, offset);
    return add_write(writer, bytes);
  }
  uint32_t issue_copy(const Access& access, const Observer& writer, uint32_t offset, uint32_t bytes,
                      const void* source);
  /// Records that another block of the cluster has written the bytes. Its order with other accesses
  /// is checked by find_global_races.
  void store_of_another(uint32_t offset, uint32_t bytes);
  /// Records that the issuing thread has waited for the copy with this record.
  void land_copy(uint32_t record, const Access& wait);

  /// Records a bulk copy to shared memory that `writer` issues. `tensor` identifies the tensor that
  /// the tile comes from.
  uint32_t bulk_write(const Access& access, const Observer& writer, uint32_t offset, uint32_t bytes,
                      const void* tensor);
  /// Records that the bytes of this bulk copy have landed.
  void land_bulk(uint32_t record) {
    write_of(record).state = WriteState::kLanded;
    --in_flight_;
  }
  /// Starts a read by wgmma or by a bulk copy. Returns its record, which is valid until
  /// end_async_read.
  uint32_t begin_async_read(const Access& access);
  /// Adds bytes to that read and checks that all of `issuers` know their writes. Returns the tensor
  /// that a bulk copy loaded them from, or nullptr.
  const void* async_read(uint32_t record, std::span<const Observer> issuers, uint32_t offset,
                         uint32_t bytes);
  void end_async_read() { --async_reads_; }  // the engine has finished the read
  /// Records a proxy fence for shared memory by `thread` at this time of its warp.
  void fence_proxy(int thread, uint32_t time, const Observer& by) {
    shared_fences_.add(thread, time, by);
  }
  /// True if a fence is between each ordinary write of these bytes and the async proxy's access.
  bool fenced(std::span<const Observer> issuers, uint32_t offset, uint32_t bytes) const {
    return unfenced_granule(issuers, offset, bytes) < 0;
  }

  /// The same for global memory, that is, record a fence, record an ordinary write, and report the
  /// first ordinary write of this block that no fence separates from a copy by the async proxy.
  void fence_global_proxy(int thread, uint32_t time, const Observer& by) {
    global_fences_.add(thread, time, by);
  }
  void global_write(const Access& access, uint64_t address, uint32_t bytes);
  bool has_global_writes() const { return !pages_.empty(); }
  void check_global_fence(const Access& access, const Observer& issuer, uint64_t address,
                          uint64_t bytes);
  /// True if these bytes have not been written since this record.
  bool last_written_by(uint32_t record, uint32_t offset, uint32_t bytes) const;

  /// Records and checks a read by one thread.
  void load(const Access& access, const Observer& reader, uint32_t offset, uint32_t bytes) {
    const auto warp = static_cast<size_t>(access.thread / kWarpSize);
    const uint32_t lane = 1u << access.thread % kWarpSize;
    const uint32_t granule = offset >> granule_shift_, before = row_of(warp)[granule];
    if (before >= first_read_) {
      Read& last = read_of(before);
      if (last.lanes == lane && last.access.time == access.time && last.previous == 0 &&
          last.offset == offset && last.bytes == bytes && last_write_[granule] == last.write &&
          same_site(last.access.site, access.site)) {
        last.access = access;  // the thread polls and nothing has changed, so one record is enough
        return;
      }
    }
    Read& fresh = reads_.emplace_back();
    fresh.access = access;
    fresh.lanes = lane;
    fresh.offset = offset;
    fresh.bytes = bytes;
    fresh.write = last_write_[granule];
    read(first_read_ + static_cast<uint32_t>(reads_.size()) - 1, reader, access.thread, offset,
         bytes);
  }

  /// Starts a read instruction of a whole warp. `access.thread` is any of its lanes. Returns its
  /// record, which is valid until the next block_sync.
  uint32_t begin_read(const Access& access);
  /// Adds bytes that `reader` reads to that instruction. `thread` is the lane that passed the
  /// address.
  void read(uint32_t record, const Observer& reader, int thread, uint32_t offset, uint32_t bytes);

  void barrier();  // all threads of the block have arrived at block_sync or cluster_sync
  void end_block() { barrier(); }
  /// Discards the open checks of a block that ended early, because the rest of its epoch is
  /// missing.
  void give_up_block() { pending_.clear(); }

 private:
  enum class WriteState : uint8_t { kStored, kInFlight, kLanded };
  struct Write {
    Access access;                                    // the store or the cp.async
    uint32_t landed_epoch, landed_time, landed_step;  // time of the wait
    WriteState state;
    uint32_t offset;
    const void* source;   // source of the byte at `offset`, or a bulk copy's tensor
    uint32_t before = 0;  // for a bulk copy, the previous write of its first bytes
  };
  struct Read {
    Access access;
    bool whole_warp = false;
    uint32_t lanes = 0;  // unless it was the whole warp, the lanes that read the same bytes at the
                         // same time
    uint32_t previous = 0;                      // earlier, unordered read of the same warp, or 0
    uint32_t offset = 0, bytes = 0, write = 0;  // a single thread's load, and the write that it saw
  };
  struct Pending {  // a read that can only be checked at the end of the epoch
    uint32_t read, write, granule;
    int thread;
  };

  uint32_t add_read(const Read& read);
  // The next record of a write, filled in as for an ordinary store.
  Write& new_write(const Access& access, uint32_t offset) {
    if (next_write_ - first_write_ == writes_.size()) [[unlikely]]
      make_room();
    Write& write = write_of(next_write_);
    write.access = access;
    write.landed_epoch = epoch_;
    write.landed_time = access.time;
    write.landed_step = access.step;
    write.state = WriteState::kStored;
    write.offset = offset;
    write.source = nullptr;
    write.before = 0;
    return write;
  }
  void make_room();
  uint32_t add_write(const Observer& writer, uint32_t bytes);
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
  // Report a conflict of a read and a write, or of a write and an older one.
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
  bool async_proxy_ = true;
  uint32_t granule_shift_ = 1;                    // a granule has 1 << granule_shift_ bytes
  uint32_t epoch_ = 0;                            // number of block_syncs so far
  std::vector<uint32_t> last_write_;              // [granules], or 0 if never written
  std::vector<std::vector<uint32_t>> last_read_;  // [warps][granules]; smaller than first_read_:
                                                  // none
  // The rows of last_read_ that have a read of the granule since first_read_ got the value `since`.
  static constexpr uint32_t kManyRows = 1u << 31;  // any row from 31 on
  struct Readers {
    uint32_t since = 0, rows = 0;
  };
  std::vector<Readers> readers_;  // [granules]
  // The last read of each granule by the warp, or by the engine after the warps.
  std::vector<uint32_t>& row_of(size_t row) {
    std::vector<uint32_t>& reads = last_read_[row];
    if (reads.size() < last_write_.size()) [[unlikely]]
      reads.resize(last_write_.size(), 0);
    return reads;
  }
  bool only_own_read(int thread, uint32_t granule);
  void note_reader(size_t row, uint32_t first, uint32_t count);
  // Writes are numbered from 2; 1 stands for those of other blocks. Those below first_write_ had
  // landed before the last barrier. They are ordered before everything that follows, and their
  // records have been dropped.
  std::vector<Write> writes_;  // a ring buffer whose size is a power of two
  static constexpr uint32_t kWriteOfAnother = 1;
  uint32_t first_write_ = kWriteOfAnother + 1, next_write_ = first_write_;
  uint32_t in_flight_ = 0;   // writes that have not landed
  std::vector<Read> reads_;  // since the last block_sync; record i is at index i - first_read_
  uint32_t first_read_ = 1;
  struct {
    uint32_t before = 0, now = 0, id = 0;
  } merged_;  // result of the last merge_reads, which the next granule of the access usually needs
              // again
  std::vector<Pending> pending_;
  std::vector<uint32_t> judged_;  // used by add_write, one per row of last_read_
  int async_reads_ = 0;           // reads in progress
  // An ordinary write, as the checks of the async proxy need it.
  struct Stamp {
    int thread = -1;      // -1 for no write, or a bulk copy
    uint32_t fences = 0;  // fences that the thread had executed before the write
    uint32_t time = 0;    // time of the thread's warp
    bool operator==(const Stamp&) const = default;
  };
  // The proxy fences of all threads. A fence covers its thread's earlier accesses, and everything
  // that this thread knew.
  class Fences {
   public:
    void begin_block(int threads) { fences_.assign(static_cast<size_t>(threads), {}); }
    void add(int thread, uint32_t time, const Observer& by);
    uint32_t count(int thread) const {
      return static_cast<uint32_t>(fences_[static_cast<size_t>(thread)].size());
    }
    /// True if a fence is between the write and the current access of `issuer`.
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
  std::vector<Stamp> stamps_;  // [number of the write], since the start of the block

  // The last ordinary write to each 16 bytes of global memory.
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
