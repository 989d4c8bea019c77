#pragma once
// Finds races in global memory between the blocks of one launch.
//
// Blocks run in any order and on several CPU threads, so the order of their accesses in a run means
// nothing. Each block logs what it reads and writes. Accesses to adjacent addresses are merged, so
// a tile is one entry. At the end of the launch, two overlapping entries of different blocks are a
// race if one of them is a write. They are no race if both are atomic, or if one block knew of the
// other's access through a flag that was released and acquired or through a barrier of their
// cluster. The end of a launch orders everything. The same races are found under every schedule.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/simt/clock.hpp"
#include "common/simt/hazard_log.hpp"

namespace fa::simt {

/// Addresses in the shared memory of the cluster have a block's rank plus 1 in their high byte, or
/// 0 for the thread's own block.
inline constexpr int kRankShift = 24;
inline constexpr uint32_t kOwnAddress = (1u << kRankShift) - 1;

/// kAtomic may write. kEnd: the block ends, and its shared memory with it.
enum class GlobalUse : uint8_t { kRead, kWrite, kAtomic, kAtomicRead, kEnd };

/// True unless both only read, both are atomic, or both are ends.
bool may_race(GlobalUse a, GlobalUse b);
/// Orders the sides of a race. The first one is reported as the faulty one.
int rank_of(GlobalUse use);
const char* verb_of(GlobalUse use);  // "writes"

/// Addresses from here on are in the shared memory of blocks: Block::shared_key.
inline constexpr uint64_t kSharedKeys = uint64_t{1} << 63;

/// All accesses of one block to global memory.
class BlockLog {
 public:
  void begin(int block, int warps);

  void add(GlobalUse use, const Site& site, int thread, uint32_t time,
           const std::shared_ptr<const Foreign>& known, uint64_t address, uint32_t bytes) {
    Stream* const set =
        &streams_[static_cast<size_t>(thread / kWarpSize)][site.line % kSets * kWays];
    const uint64_t end = address + bytes;
    for (Stream* stream = set; stream != set + kWays; ++stream) {
      if (stream->line != site.line || stream->use != use || stream->time != time ||
          stream->known != known.get() || stream->file != site.file) {
        continue;
      }
      Entry& entry = entries_[stream->entry];
      if (address > entry.end || end < entry.begin) continue;
      if (synchronizes_ && entry.thread != thread)
        continue;                                    // a lane's release does not cover
                                                     // other lanes
      entry.begin = std::min(entry.begin, address);  // most accesses continue where the
                                                     // last one ended
      entry.end = std::max(entry.end, end);
      if (entry.thread != thread) entry.thread = -1;
      return;
    }
    add_entry(set[next_way_++ % kWays], use, site, thread, time, known, address, bytes);
  }

  /// Adds an access of an engine (clock.hpp). It is ordered before what knows this time of the
  /// engine.
  void add_engine(GlobalUse use, const Site& site, int engine, uint32_t time,
                  const std::shared_ptr<const Foreign>& known, uint64_t address, uint32_t bytes) {
    Stream unused;
    add_entry(unused, use, site, engine * kWarpSize, time, known, address, bytes);
    entries_.back().thread = -1;
  }

  /// Notes that this block has synchronized with others, so that the time of each warp's access
  /// matters.
  void orders_warps() { orders_warps_ = true; }
  /// Notes that a single lane has released or acquired, so that the lane matters as well from now
  /// on.
  void synchronizes() { synchronizes_ = orders_warps_ = true; }
  void end();  // merges adjacent entries

 private:
  friend class RaceSearch;
  static constexpr int kSets = 8, kWays = 4;  // several ways, because a line may read from several
                                              // buffers

  struct Place {
    Site site;
    GlobalUse use;
  };
  struct Entry {
    uint64_t begin, end;  // range of addresses
    uint32_t place;
    uint32_t known;  // index in known_, or 0 for no other block's accesses
    uint32_t time;   // time of the warp
    int thread;      // -1 for several threads of the warp
    int warp;
  };
  struct Stream {  // the latest access of a warp at a source line
    const char* file = nullptr;
    int line = 0;
    GlobalUse use{};
    uint32_t time = 0;
    const Foreign* known = nullptr;
    uint32_t entry = 0;
  };

  void add_entry(Stream& stream, GlobalUse use, const Site& site, int thread, uint32_t time,
                 const std::shared_ptr<const Foreign>& known, uint64_t address, uint32_t bytes);
  void merge();

  int block_ = 0;
  bool orders_warps_ = false, synchronizes_ = false;
  size_t merge_at_ = 0;
  std::vector<Place> places_;
  std::vector<std::shared_ptr<const Foreign>> known_;
  std::vector<Entry> entries_;
  std::vector<std::vector<Stream>> streams_;  // [warps][kSets * kWays]
  uint32_t next_way_ = 0;
};

/// Compares the logs of all blocks and reports the races.
void find_global_races(const std::vector<BlockLog>& logs, HazardLog& hazards);

/// Clocks that have been released through global memory, by the address of the flag or counter.
class GlobalClocks {
 public:
  std::mutex mutex;  // also makes an atomic access and the update of its clock one step
  std::unordered_map<uint64_t, std::shared_ptr<const Foreign>> released;
};

}  // namespace fa::simt
