#include "common/simt/global_log.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "common/simt/buffer.hpp"

namespace fa::simt {

namespace {

constexpr size_t kMergeAt = 1 << 16;

}  // namespace

void BlockLog::begin(int block, int warps) {
  block_ = block;
  synchronizes_ = false;
  merge_at_ = kMergeAt;
  places_.clear();
  entries_.clear();
  known_.assign(1, nullptr);
  streams_.assign(static_cast<size_t>(warps), std::vector<Stream>(kSets * kWays));
}

void BlockLog::add_entry(Stream& stream, GlobalUse use, const Site& site, int thread, uint32_t time,
                         const std::shared_ptr<const Foreign>& known, uint64_t address,
                         uint32_t bytes) {
  if (entries_.size() >= merge_at_) {
    merge();
    merge_at_ = std::max(kMergeAt, 2 * entries_.size());
  }
  size_t place = 0;
  while (place < places_.size() &&
         !(places_[place].use == use && same_site(places_[place].site, site))) {
    ++place;
  }
  if (place == places_.size()) places_.push_back({site, use});
  size_t number = known_.size();
  while (number-- > 0 && known_[number] != known) {
  }
  if (number == static_cast<size_t>(-1)) {
    number = known_.size();
    known_.push_back(known);
  }
  stream = {site.file, site.line, use, time, known.get(), static_cast<uint32_t>(entries_.size())};
  entries_.push_back({address, address + bytes, static_cast<uint32_t>(place),
                      static_cast<uint32_t>(number), time, thread, thread / kWarpSize});
}

void BlockLog::merge() {
  const auto key = [](const Entry& e) {
    return std::tie(e.place, e.known, e.time, e.warp, e.thread, e.begin);
  };
  std::sort(entries_.begin(), entries_.end(),
            [&](const Entry& a, const Entry& b) { return key(a) < key(b); });
  size_t kept = 0;
  for (const Entry& entry : entries_) {
    if (kept > 0) {
      Entry& last = entries_[kept - 1];
      if (last.place == entry.place && last.known == entry.known && last.time == entry.time &&
          last.warp == entry.warp && last.thread == entry.thread && entry.begin <= last.end) {
        last.end = std::max(last.end, entry.end);
        continue;
      }
    }
    entries_[kept++] = entry;
  }
  entries_.resize(kept);
  for (std::vector<Stream>& streams : streams_) std::fill(streams.begin(), streams.end(), Stream{});
}

void BlockLog::end() {
  if (!synchronizes_) {  // nothing orders any of it with another block's: who and when is the same
    for (Entry& entry : entries_) {
      entry.time = 0;
      entry.warp = 0;
      entry.thread = -1;
    }
  }
  merge();
  entries_.shrink_to_fit();
  streams_ = {};
}

class RaceSearch {
 public:
  explicit RaceSearch(const std::vector<BlockLog>& logs) : logs_(logs) {}

  void run(HazardLog& hazards) {
    collect();
    compare();
    for (const auto& [places, race] : races_) report(race, hazards);
  }

 private:
  struct Item {
    const BlockLog* log;
    const BlockLog::Entry* entry;
    const BlockLog::Place& place() const { return log->places_[entry->place]; }
    GlobalUse use() const { return place().use; }
  };
  struct Race {  // of two source lines; the example has the lowest blocks
    Item one, other;
    uint64_t address = 0;
    std::set<int> blocks;
  };

  // All writes, and the reads that overlap one.
  void collect() {
    std::vector<std::pair<uint64_t, uint64_t>> written;
    for (const BlockLog& log : logs_) {
      for (const BlockLog::Entry& entry : log.entries_) {
        const Item item{&log, &entry};
        if (item.use() == GlobalUse::kRead) continue;
        written.emplace_back(entry.begin, entry.end);
        items_.push_back(item);
      }
    }
    std::sort(written.begin(), written.end());
    size_t kept = 0;
    for (const auto& range : written) {
      if (kept > 0 && range.first <= written[kept - 1].second) {
        written[kept - 1].second = std::max(written[kept - 1].second, range.second);
      } else {
        written[kept++] = range;
      }
    }
    written.resize(kept);
    if (written.empty()) return;
    for (const BlockLog& log : logs_) {
      for (const BlockLog::Entry& entry : log.entries_) {
        const Item item{&log, &entry};
        if (item.use() != GlobalUse::kRead) continue;
        auto range = std::upper_bound(written.begin(), written.end(),
                                      std::make_pair(entry.begin, ~uint64_t{0}));
        if (range != written.begin() && std::prev(range)->second > entry.begin) --range;
        if (range != written.end() && range->first < entry.end) items_.push_back(item);
      }
    }
  }

  void compare() {
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return std::tie(a.entry->begin, a.log->block_) < std::tie(b.entry->begin, b.log->block_);
    });
    std::vector<Item> open;
    for (const Item& item : items_) {
      std::erase_if(open, [&](const Item& o) { return o.entry->end <= item.entry->begin; });
      for (const Item& before : open) {
        if (races(before, item)) note(before, item);
      }
      open.push_back(item);
    }
  }

  static bool races(const Item& a, const Item& b) {
    if (a.log == b.log) return false;
    if (a.use() == GlobalUse::kRead && b.use() == GlobalUse::kRead) return false;
    if (a.use() == GlobalUse::kAtomic && b.use() == GlobalUse::kAtomic) return false;
    return !knows(a, b) && !knows(b, a);
  }

  // Does a's thread know of b's access?
  static bool knows(const Item& a, const Item& b) {
    const Foreign* known = a.log->known_[a.entry->known].get();
    if (known == nullptr) return false;
    const auto found = known->blocks.find(b.log->block_);
    if (found == known->blocks.end()) return false;
    return b.entry->thread >= 0 ? found->second.knows(b.entry->thread, b.entry->time)
                                : found->second.knows_warp(b.entry->warp, b.entry->time);
  }

  // A plain access is at fault before an atomic one, a write before a read, then the earlier line.
  static auto rank(const Item& item) {
    const int use = item.use() == GlobalUse::kWrite ? 0 : item.use() == GlobalUse::kRead ? 1 : 2;
    return std::make_tuple(use, item.place().site.line, to_string(item.place().site));
  }

  void note(Item a, Item b) {
    const auto rank_a = rank(a), rank_b = rank(b);
    if (std::tie(rank_b, b.log->block_) < std::tie(rank_a, a.log->block_)) std::swap(a, b);
    const auto [found, is_new] = races_.try_emplace(std::minmax(rank_a, rank_b), Race{a, b, 0, {}});
    Race& race = found->second;
    race.blocks.insert(a.log->block_);
    if (rank_a == rank_b) race.blocks.insert(b.log->block_);
    const uint64_t address = std::max(a.entry->begin, b.entry->begin);
    const auto key = [](const Item& x, const Item& y, uint64_t where) {
      return std::make_tuple(x.log->block_, y.log->block_, where);
    };
    if (is_new || key(a, b, address) < key(race.one, race.other, race.address)) {
      race.one = a;
      race.other = b;
      race.address = address;
    }
  }

  static void report(const Race& race, HazardLog& hazards) {
    const auto verb = [](const Item& item) {
      if (item.use() == GlobalUse::kRead) return "reads";
      return item.use() == GlobalUse::kWrite ? "writes" : "atomically changes";
    };
    Hazard hazard;
    hazard.kind = HazardKind::kGlobalRace;
    hazard.where = race.one.place().site;
    hazard.other = race.other.place().site;
    hazard.count = static_cast<int64_t>(race.blocks.size());
    hazard.block = race.one.log->block_;
    hazard.thread = race.one.entry->thread;
    hazard.other_thread = race.other.entry->thread;
    hazard.address = race.address;
    hazard.text = "block " + std::to_string(hazard.block) + " " + verb(race.one) + " " +
                  describe_address(reinterpret_cast<const void*>(race.address)) + ", which block " +
                  std::to_string(race.other.log->block_) + " " + verb(race.other) + " at " +
                  to_string(hazard.other) + ": nothing orders the two";
    hazards.add(std::move(hazard));
  }

  using Rank = std::tuple<int, int, std::string>;
  const std::vector<BlockLog>& logs_;
  std::vector<Item> items_;
  std::map<std::pair<Rank, Rank>, Race> races_;
};

void find_global_races(const std::vector<BlockLog>& logs, HazardLog& hazards) {
  RaceSearch(logs).run(hazards);
}

}  // namespace fa::simt
