#include "common/simt/global_shadow.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "common/simt/buffer.hpp"

namespace fa::simt {

namespace {

bool writes(GlobalUse use) { return use == GlobalUse::kWrite || use == GlobalUse::kAtomic; }

}  // namespace

void GlobalShadow::begin_block(int block, int granule_bytes) {
  block_ = block;
  shift_ = granule_bytes == 4 ? 2 : granule_bytes == 2 ? 1 : 0;
  if (places_.size() > UINT16_MAX / 2) {
    places_.resize(1);
    recent_places_ = {};
  }
  forget();
}

GlobalShadow::Slot& GlobalShadow::slot_of(uint64_t number) {
  const size_t mask = table_.size() - 1;
  size_t at = (number * 0x9e3779b97f4a7c15) >> 32 & mask;
  while (table_[at].epoch == epoch_ && table_[at].number != number) at = (at + 1) & mask;
  return table_[at];
}

void GlobalShadow::grow() {
  table_.assign(std::max<size_t>(1024, 2 * table_.size()), {});
  for (size_t i = 0; i < count_; ++i) {
    const uint64_t number = pages_[i]->number;
    slot_of(number) = {number, epoch_, static_cast<uint32_t>(i)};
  }
}

GlobalShadow::Page* GlobalShadow::page_of(uint64_t number) {
  Page*& recent = recent_pages_[number / 4096 % recent_pages_.size()];
  if (recent != nullptr && recent->number == number && recent->epoch == epoch_) return recent;
  if (2 * count_ >= table_.size()) grow();
  Slot& slot = slot_of(number);
  if (slot.epoch != epoch_) {
    if (count_ == kMostPages) return nullptr;
    if (count_ == pages_.size()) pages_.push_back(std::make_unique<Page>());
    *pages_[count_] = {number, epoch_, {}};
    slot = {number, epoch_, static_cast<uint32_t>(count_++)};
  }
  return recent = pages_[slot.page].get();
}

uint16_t GlobalShadow::place_of(GlobalUse use, const Site& site) {
  const auto is = [&](const Place& place) {
    return place.use == use && place.site.line == site.line && place.site.file == site.file;
  };
  uint16_t& recent =
      recent_places_[(static_cast<size_t>(site.line) * 4 + static_cast<size_t>(use)) %
                     recent_places_.size()];
  if (is(places_[recent])) return recent;
  size_t number = 1;
  while (number < places_.size() && !is(places_[number])) ++number;
  if (number == places_.size()) {
    if (number > UINT16_MAX) return 0;
    places_.push_back({site, use});
  }
  return recent = static_cast<uint16_t>(number);
}

// True unless one knows of the other, both read, or both are atomic.
bool GlobalShadow::races(const Observer& observer, const Use& before, GlobalUse use) const {
  if (before.place == 0 || observer.knows(before.thread, before.time)) return false;
  return may_race(places_[before.place].use, use);
}

void GlobalShadow::access(const Thread& thread, GlobalUse use, const Site& site, uint64_t address,
                          uint32_t bytes, bool keeps) {
  const Use now{thread.warp->time, static_cast<uint16_t>(thread.index), place_of(use, site)};
  const Observer self = observer(thread);
  bool reported = false;
  const auto judge = [&](const Use& before, uint64_t granule) {
    if (reported || !races(self, before, use)) return;
    reported = true;
    report(thread, now, before, std::max(address, granule << shift_), keeps);
  };
  const uint64_t end = (address + bytes - 1) >> shift_;
  for (uint64_t at = address >> shift_; at <= end;) {
    Page* const page = page_of(at / kGranules);
    const uint64_t last = std::min(end, at | (kGranules - 1));
    for (; at <= last && page != nullptr; ++at) {
      Granule& granule = page->granules[at % kGranules];
      judge(granule.write, at);
      if (writes(use)) {
        for (Use& read : granule.reads) {
          judge(read, at);
          read.place = 0;
        }
        granule.write = now;
        continue;
      }
      for (Use& read : granule.reads) {
        if (read.place != 0 && !self.knows(read.thread, read.time)) continue;
        read = now;
        break;
      }
    }
    at = last + 1;
  }
}

// A plain write is named first, then a plain read, then the earlier line (as in global_log.cpp), so
// that the report does not depend on the schedule.
void GlobalShadow::report(const Thread& thread, const Use& now, const Use& before, uint64_t address,
                          bool keeps) {
  const Use* one = &now;
  const Use* other = &before;
  const auto site = [&](const Use* use) { return places_[use->place].site; };
  const auto name = [&](const Use* use) { return "thread " + std::to_string(use->thread); };
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is only printed
  const auto place = [&] { return describe_address(reinterpret_cast<const void*>(address)); };
  Hazard hazard;
  hazard.kind = HazardKind::kGlobalRace;
  if (keeps && same_site(site(one), site(other)) &&
      now.thread / kWarpSize == before.thread / kWarpSize)
    hazard.kind = HazardKind::kSameValueStore;
  const auto rank = [&](const Use* use) {
    return std::tuple(rank_of(places_[use->place].use), site(use).line, to_string(site(use)));
  };
  if (rank(other) < rank(one)) std::swap(one, other);
  hazard.where = site(one);
  hazard.other = site(other);
  hazard.count = 1;
  hazard.block = block_;
  hazard.thread = one->thread;
  hazard.other_thread = other->thread;
  hazard.step = event_step(thread);
  hazard.address = address;
  if (log_.is_new(hazard.kind, hazard.where, block_)) {
    hazard.text = hazard.kind == HazardKind::kSameValueStore
                      ? "lanes of warp " + std::to_string(thread.index / kWarpSize) +
                            " store the same value to " + place() + " with one instruction"
                      : name(one) + " of block " + std::to_string(block_) + " " +
                            verb_of(places_[one->place].use) + " " + place() + ", which " +
                            name(other) + " of the same block " +
                            verb_of(places_[other->place].use) + " at " + to_string(hazard.other) +
                            ": no barrier orders the two";
  }
  log_.add(std::move(hazard));
}

}  // namespace fa::simt
