#pragma once
// Finds races in global memory between the blocks of one launch.
//
// Blocks run in any order and on several CPU threads, so that who came first says nothing. Each
// block writes down what it reads and writes, neighbouring addresses together: a tile is one entry.
// When the launch ends, entries of two blocks that overlap, one of them a write, are a race unless
// both are atomic or one block knew of the other's access: through a flag that was released and
// acquired, or a barrier of their cluster. The end of a launch orders everything. The same races
// are found under every schedule.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/simt/clock.hpp"
#include "common/simt/hazard_log.hpp"

namespace fa::simt {

enum class GlobalUse : uint8_t { kRead, kWrite, kAtomic };

/// Everything that one block did.
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
      if (synchronizes_ && entry.thread != thread) continue;  // what one lane releases is its own
      entry.begin = std::min(entry.begin, address);           // it goes on where it ended, mostly
      entry.end = std::max(entry.end, end);
      if (entry.thread != thread) entry.thread = -1;
      return;
    }
    add_entry(set[next_way_++ % kWays], use, site, thread, time, known, address, bytes);
  }

  /// This block has met others: it matters when each of its warps did what.
  void orders_warps() { orders_warps_ = true; }
  /// It has released or acquired: from now on it matters which lane did what, too.
  void synchronizes() { synchronizes_ = orders_warps_ = true; }
  void end();  // puts together what belongs together

 private:
  friend class RaceSearch;
  static constexpr int kSets = 8, kWays = 4;  // a line may read from several buffers

  struct Place {
    Site site;
    GlobalUse use;
  };
  struct Entry {
    uint64_t begin, end;  // addresses
    uint32_t place;
    uint32_t known;  // 0: of no other block's accesses
    uint32_t time;   // of the warp
    int thread;      // -1: several of the warp
    int warp;
  };
  struct Stream {  // where the last access of a warp at a source line went
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

/// Compares the logs of all blocks, and reports the races.
void find_global_races(const std::vector<BlockLog>& logs, HazardLog& hazards);

/// What has been released through global memory, by address: flags and counters.
class GlobalClocks {
 public:
  std::mutex mutex;  // also makes an atomic access and its clock one step
  std::unordered_map<uint64_t, std::shared_ptr<const Foreign>> released;
};

}  // namespace fa::simt
