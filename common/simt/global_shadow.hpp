#pragma once
// Finds races in global memory between the threads of one block of a CUDA file.
//
// As in shadow.hpp, two accesses race if one of them writes and the later one does not know of the
// other (clock.hpp). Each granule remembers its last write, and reads by up to two threads, so that
// a race with a third one can be missed, but no access is reported wrongly. A block_sync orders
// everything before it. So does the end of the block, and find_global_races compares blocks.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/simt/global_log.hpp"
#include "common/simt/hazard_log.hpp"
#include "common/simt/thread.hpp"

namespace fa::simt {

class GlobalShadow {
 public:
  explicit GlobalShadow(HazardLog& log) : log_(log) {}

  /// Accesses are judged for each granule of 1, 2 or 4 bytes.
  void begin_block(int block, int granule_bytes);
  void barrier() { forget(); }  // all threads of the block have arrived at a barrier

  /// Records an access by the running `thread` and reports it if it races with an earlier one.
  /// `keeps`: it is a store that leaves the bytes as they are.
  void access(const Thread& thread, GlobalUse use, const Site& site, uint64_t address,
              uint32_t bytes, bool keeps);

 private:
  struct Use {
    uint32_t time = 0;    // time of the thread's warp
    uint16_t thread = 0;  // index in the block
    uint16_t place = 0;   // index in places_; 0: no access
  };
  struct Granule {
    Use write, reads[2];
  };
  static constexpr uint64_t kGranules = 32;  // per page
  struct Page {
    uint64_t number = 0;
    uint32_t epoch = 0;
    std::array<Granule, kGranules> granules;
  };
  struct Slot {
    uint64_t number = 0;
    uint32_t epoch = 0, page = 0;
  };
  struct Place {
    Site site;
    GlobalUse use{};
  };
  // A block that accesses more between two barriers is checked in part: 8 MB, if a granule has 4
  // bytes.
  static constexpr size_t kMostPages = 1 << 16;

  void forget() {
    ++epoch_;
    count_ = 0;
  }
  Page* page_of(uint64_t number);
  Slot& slot_of(uint64_t number);  // where the page is, or a free one
  void grow();
  uint16_t place_of(GlobalUse use, const Site& site);
  bool races(const Observer& observer, const Use& before, GlobalUse use) const;
  void report(const Thread& thread, const Use& now, const Use& before, uint64_t address,
              bool keeps);

  HazardLog& log_;
  int block_ = 0, shift_ = 2;
  uint32_t epoch_ = 1;
  size_t count_ = 0;                          // pages in use
  std::vector<std::unique_ptr<Page>> pages_;  // kept for later blocks
  std::vector<Slot> table_;                   // open addressing; the size is a power of two
  std::vector<Place> places_{1};
  std::array<uint16_t, 64> recent_places_{};
  std::array<Page*, 8> recent_pages_{};
};

}  // namespace fa::simt
