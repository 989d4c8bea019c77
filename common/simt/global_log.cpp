#include "common/simt/global_log.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "common/simt/buffer.hpp"

namespace fa::simt {

namespace {

constexpr size_t kMergeAt = 1 << 16;

}  // namespace

bool may_race(GlobalUse a, GlobalUse b) {
  const auto reads = [](GlobalUse u) {
    return u == GlobalUse::kRead || u == GlobalUse::kAtomicRead;
  };
  const auto atomic = [](GlobalUse u) {
    return u == GlobalUse::kAtomic || u == GlobalUse::kAtomicRead;
  };
  if ((reads(a) && reads(b)) || (atomic(a) && atomic(b))) return false;
  return a != b || a == GlobalUse::kWrite;
}

int rank_of(GlobalUse use) {
  static constexpr int kRanks[] = {1, 0, 2, 3, 4};
  return kRanks[static_cast<size_t>(use)];
}

const char* verb_of(GlobalUse use) {
  if (use == GlobalUse::kWrite) return "writes";
  return use == GlobalUse::kAtomic ? "atomically changes" : "reads";
}

void BlockLog::begin(int block, int warps) {
  block_ = block;
  orders_warps_ = synchronizes_ = false;
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
  if (!orders_warps_) {  // no other block is ordered with this one, so thread and time do not
                         // matter
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
    rank();
    compare();
    for (const auto& [places, race] : races_) report(race, hazards);
  }

 private:
  struct Item {
    const BlockLog* log = nullptr;
    const BlockLog::Entry* entry = nullptr;
    int rank = 0;  // rank of its place among all places
    const BlockLog::Place& place() const { return log->places_[entry->place]; }
    GlobalUse use() const { return place().use; }
  };
  struct Race {  // between two source lines, where the example has the lowest blocks
    Item one, other;
    uint64_t address = 0;
    std::vector<bool> blocks;
  };
  static constexpr GlobalUse kUses[] = {GlobalUse::kRead, GlobalUse::kWrite, GlobalUse::kAtomic,
                                        GlobalUse::kAtomicRead, GlobalUse::kEnd};

  // Disjoint addresses that are accessed in one of the ways, in order.
  class Ranges {
   public:
    void add(const BlockLog::Entry& entry) { ranges_.emplace_back(entry.begin, entry.end); }
    void join() {
      std::sort(ranges_.begin(), ranges_.end());
      size_t kept = 0;
      for (const auto& range : ranges_) {
        if (kept > 0 && range.first <= ranges_[kept - 1].second) {
          ranges_[kept - 1].second = std::max(ranges_[kept - 1].second, range.second);
        } else {
          ranges_[kept++] = range;
        }
      }
      ranges_.resize(kept);
    }
    bool overlap(const BlockLog::Entry& entry) const {  // finds the first range that ends after
                                                        // entry.begin
      const auto range = std::partition_point(
          ranges_.begin(), ranges_.end(), [&](const auto& r) { return r.second <= entry.begin; });
      return range != ranges_.end() && range->first < entry.end;
    }

   private:
    std::vector<std::pair<uint64_t, uint64_t>> ranges_;
  };

  // Collects all writes, and all other accesses that overlap one that they may race with.
  void collect() {
    Ranges ranges[std::size(kUses)];
    const auto for_each = [&](auto work) {
      for (const BlockLog& log : logs_) {
        for (const BlockLog::Entry& entry : log.entries_) work(Item{&log, &entry});
      }
    };
    for_each([&](const Item& item) { ranges[static_cast<size_t>(item.use())].add(*item.entry); });
    for (Ranges& each : ranges) each.join();
    for_each([&](const Item& item) {
      for (const GlobalUse use : kUses) {
        if (may_race(use, item.use()) && ranges[static_cast<size_t>(use)].overlap(*item.entry)) {
          items_.push_back(item);
          return;
        }
      }
    });
  }

  // Orders places by which is reported as the faulty one. A plain access comes before an atomic
  // one, a write before a read, and then the earlier line.
  void rank() {
    using Rank = std::tuple<int, int, std::string>;
    std::vector<BlockLog::Place> places;  // may contain a file name twice, with two pointers
    std::vector<Rank> ranks;
    for (Item& item : items_) {
      const BlockLog::Place& place = item.place();
      size_t number = 0;
      while (number < places.size() &&
             !(places[number].use == place.use && places[number].site.line == place.site.line &&
               places[number].site.file == place.site.file)) {
        ++number;
      }
      if (number == places.size()) {
        places.push_back(place);
        ranks.emplace_back(rank_of(place.use), place.site.line, to_string(place.site));
      }
      item.rank = static_cast<int>(number);
    }
    std::vector<Rank> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    for (Item& item : items_) {
      const Rank& own = ranks[static_cast<size_t>(item.rank)];
      item.rank =
          static_cast<int>(std::lower_bound(sorted.begin(), sorted.end(), own) - sorted.begin());
    }
  }

  // Entries of one source line whose blocks are not ordered with others. Each of them races with
  // every entry that it may race with, so a few of them represent all, and the work is linear in
  // their number.
  struct Group {
    int rank = 0;
    std::vector<Item> items;
    Item first, second;  // from the lowest block, and from the next one
    struct Counted {
      size_t next = 0;            // items before this index are done, except these:
      std::vector<Item> skipped;  // skipped, because the other entry was from the same block
    };
    std::map<int, Counted> counted;  // by the rank of the other line; counts the blocks of a race

    void add(const Item& item) {
      items.push_back(item);
      const auto block = [](const Item& x) { return x.log->block_; };
      if (first.log == nullptr || block(item) < block(first)) {
        if (first.log != nullptr) second = first;
        first = item;
      } else if (block(item) != block(first) &&
                 (second.log == nullptr || block(item) < block(second))) {
        second = item;
      }
    }
    const Item* other_than(const Item& item) const {
      if (first.log != item.log) return &first;
      return second.log != nullptr ? &second : nullptr;
    }
  };
  struct Open {  // entries of one use that the next entry may overlap
    std::vector<Item> ordered;
    std::vector<Group> groups;
    uint64_t first_end = std::numeric_limits<uint64_t>::max();

    static bool orders_nothing(const Item& item) {
      return !item.log->orders_warps_ && item.log->known_[item.entry->known] == nullptr;
    }
    void add(const Item& item) {
      first_end = std::min(first_end, item.entry->end);
      if (!orders_nothing(item)) return ordered.push_back(item);
      auto group = std::find_if(groups.begin(), groups.end(),
                                [&](const Group& g) { return g.rank == item.rank; });
      if (group == groups.end())
        group = groups.insert(groups.end(), Group{item.rank, {}, {}, {}, {}});
      group->add(item);
    }
    void close_before(uint64_t begin) {  // drops entries that end by there
      if (first_end > begin) return;
      Open kept;
      for (const Item& item : ordered)
        if (item.entry->end > begin) kept.add(item);
      for (const Group& group : groups)
        for (const Item& item : group.items)
          if (item.entry->end > begin) kept.add(item);
      *this = std::move(kept);
    }
  };

  void compare() {
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return std::tie(a.entry->begin, a.log->block_) < std::tie(b.entry->begin, b.log->block_);
    });
    Open open[std::size(kUses)];
    for (const Item& item : items_) {
      for (const GlobalUse use : kUses) {
        if (!may_race(use, item.use())) continue;
        Open& others = open[static_cast<size_t>(use)];
        others.close_before(item.entry->begin);
        for (const Item& before : others.ordered) {
          if (before.log != item.log && !knows(before, item) && !knows(item, before)) {
            note(before, item);
          }
        }
        for (Group& group : others.groups) note_all(group, item);
      }
      open[static_cast<size_t>(item.use())].add(item);
    }
  }

  // Records a race of `item` with each entry of the group from another block.
  void note_all(Group& group, const Item& item) {
    const Item* const other = group.other_than(item);
    if (other == nullptr) return;
    note(*other, item);
    if (group.rank > item.rank) return;  // counts the item's block and not theirs
    Race& race = races_.at({group.rank, item.rank});
    Group::Counted& counted = group.counted[item.rank];
    std::erase_if(counted.skipped, [&](const Item& each) {
      if (each.log == item.log) return false;
      add_block(race, each);
      return true;
    });
    for (; counted.next < group.items.size(); ++counted.next) {
      const Item& each = group.items[counted.next];
      each.log == item.log ? counted.skipped.push_back(each) : add_block(race, each);
    }
  }

  // True if the thread of `a` knows about the access `b`.
  static bool knows(const Item& a, const Item& b) {
    const Foreign* known = a.log->known_[a.entry->known].get();
    if (known == nullptr) return false;
    const auto found = known->blocks.find(b.log->block_);
    if (found == known->blocks.end()) return false;
    return b.entry->thread >= 0 ? found->second.knows(b.entry->thread, b.entry->time)
                                : found->second.knows_warp(b.entry->warp, b.entry->time);
  }

  void note(Item a, Item b) {
    if (std::tie(b.rank, b.log->block_) < std::tie(a.rank, a.log->block_)) std::swap(a, b);
    const uint64_t address = std::max(a.entry->begin, b.entry->begin);
    const auto [found, is_new] = races_.try_emplace({a.rank, b.rank});
    Race& race = found->second;
    add_block(race, a);
    if (a.rank == b.rank) add_block(race, b);
    const auto key = [](const Item& x, const Item& y, uint64_t where) {
      return std::make_tuple(x.log->block_, y.log->block_, where);
    };
    if (is_new || key(a, b, address) < key(race.one, race.other, race.address)) {
      race.one = a;
      race.other = b;
      race.address = address;
    }
  }

  static void add_block(Race& race, const Item& item) {
    const auto block = static_cast<size_t>(item.log->block_);
    if (block >= race.blocks.size()) race.blocks.resize(block + 1);
    race.blocks[block] = true;
  }

  static std::string place_of(uint64_t address) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that is only named
    if (address < kSharedKeys) return describe_address(reinterpret_cast<const void*>(address));
    return "byte " + std::to_string(address & 0xffffff) + " of block " +
           std::to_string((address & ~kSharedKeys) >> kRankShift) + "'s shared memory";
  }
  static void report(const Race& race, HazardLog& hazards) {
    const bool shared = race.address >= kSharedKeys;
    Hazard hazard;
    hazard.kind = shared ? HazardKind::kClusterRace : HazardKind::kGlobalRace;
    hazard.where = race.one.place().site;
    hazard.other = race.other.place().site;
    hazard.count = std::count(race.blocks.begin(), race.blocks.end(), true);
    hazard.block = race.one.log->block_;
    hazard.thread = race.one.entry->thread;
    hazard.other_thread = race.other.entry->thread;
    hazard.address = race.address;
    hazard.text = "block " + std::to_string(hazard.block) + " " + verb_of(race.one.use()) + " " +
                  place_of(race.address) + ", ";
    const std::string other = "block " + std::to_string(race.other.log->block_);
    if (race.other.use() == GlobalUse::kEnd) {
      hazard.text += "and no cluster barrier makes " + other + " wait for that before it ends";
    } else {
      hazard.text += "which " + other + " " + verb_of(race.other.use()) + " at " +
                     to_string(hazard.other) + ": nothing orders the two";
    }
    hazards.add(std::move(hazard));
  }

  const std::vector<BlockLog>& logs_;
  std::vector<Item> items_;
  std::map<std::pair<int, int>, Race> races_;  // by the two ranks
};

void find_global_races(const std::vector<BlockLog>& logs, HazardLog& hazards) {
  RaceSearch(logs).run(hazards);
}

}  // namespace fa::simt
