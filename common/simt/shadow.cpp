#include "common/simt/shadow.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "common/simt/buffer.hpp"
#include "common/simt/matrix.hpp"

namespace fa::simt {

namespace {

int warp_of(int thread) { return thread / kWarpSize; }

std::string thread_text(int thread) {
  return "thread " + std::to_string(thread) + " (warp " + std::to_string(warp_of(thread)) + ")";
}

std::string copy_text(const Access& access) {
  return (access.engine >= 0 ? info(access.engine_work).name : "cp.async") + std::string(" of ") +
         thread_text(access.thread);
}

std::string writer_text(const Access& access) {
  return access.engine >= 0 ? "the " + copy_text(access) : thread_text(access.thread);
}

}  // namespace

// Names a race by the access that comes first in the program. Steps of threads with different roles
// cannot be compared. There, a bulk copy that overwrites bytes of another thread counts as the
// second.
HazardKind Shadow::name_of_race(const Access& read, const Write& write) {
  const bool bulk = write.access.engine >= 0;
  if (bulk || read.engine >= 0) {
    if (write.before != 0) return HazardKind::kOverwriteWhileRead;
    return bulk ? HazardKind::kReadBeforeWait : HazardKind::kReadBeforeBarrier;
  }
  return read.step < write.access.step ? HazardKind::kOverwriteWhileRead
                                       : HazardKind::kReadBeforeBarrier;
}

void Shadow::begin_block(int block, uint32_t smem_bytes, int warps, int granule_bytes,
                         bool async_proxy) {
  block_ = block;
  granule_shift_ = static_cast<uint32_t>(std::countr_zero(static_cast<uint32_t>(granule_bytes)));
  async_proxy_ = async_proxy;
  epoch_ = 0;
  const size_t granules = (smem_bytes + (1u << granule_shift_) - 1) >> granule_shift_;
  last_write_.assign(granules, 0);
  readers_.assign(granules, {});
  last_read_.resize(static_cast<size_t>(warps));
  first_read_ += static_cast<uint32_t>(reads_.size());
  reads_.clear();
  if (first_read_ >
      std::numeric_limits<uint32_t>::max() / 2) {  // read numbers continue from block to block
    for (std::vector<uint32_t>& reads : last_read_) std::fill(reads.begin(), reads.end(), 0);
    first_read_ = 1;
  }
  if (writes_.empty()) writes_.resize(4096);
  first_write_ = next_write_ = kWriteOfAnother + 1;
  in_flight_ = 0;
  pending_.clear();
  async_reads_ = 0;
  stamps_.assign(next_write_, {});
  shared_fences_.begin_block(warps * kWarpSize);
  global_fences_.begin_block(warps * kWarpSize);
  pages_.clear();
  last_page_ = {0, nullptr};
}

void Shadow::store_of_another(uint32_t offset, uint32_t bytes) {
  const uint32_t first = offset >> granule_shift_;
  std::fill_n(&last_write_[first], ((offset + bytes - 1) >> granule_shift_) - first + 1,
              kWriteOfAnother);
}

uint32_t Shadow::issue_copy(const Access& access, const Observer& writer, uint32_t offset,
                            uint32_t bytes, const void* source) {
  Write& write = new_write(access, offset);
  write.state = WriteState::kInFlight;
  write.source = source;
  return add_write(writer, bytes);
}

void Shadow::land_copy(uint32_t record, const Access& wait) {
  Write& write = write_of(record);
  write.state = WriteState::kLanded;
  --in_flight_;
  write.landed_epoch = epoch_;
  write.landed_time = wait.time;
  write.landed_step = wait.step;
  // A fence before the wait does not count.
  if (async_proxy_) stamps_[record] = stamp_of(write.access, wait.time, shared_fences_);
}

void Shadow::Fences::add(int thread, uint32_t time, const Observer& by) {
  Clock known = by.warp;
  if (by.own != nullptr) known.join(*by.own);
  if (last_known_ == nullptr ||
      !last_known_->same_as(known)) {  // usually the last lane knew the same
    last_known_ = std::make_shared<const Clock>(std::move(known));
  }
  fences_[static_cast<size_t>(thread)].push_back({time, last_known_});
}

// The fence must be on the path that orders the write before the copy or the wgmma. It may be
// executed by the thread that wrote, the thread that issues, or a thread on the path between them.
bool Shadow::Fences::between(const Stamp& write, const Observer& issuer) const {
  const std::vector<Fence>& own = fences_[static_cast<size_t>(write.thread)];
  if (own.size() > write.fences) {
    const Fence& first = own[write.fences];
    if (issuer.is(write.thread) || issuer.knows(write.thread, first.time)) return true;
  }
  for (size_t thread = 0; thread < fences_.size(); ++thread) {
    const int by = static_cast<int>(thread);
    for (auto fence = fences_[thread].rbegin(); fence != fences_[thread].rend(); ++fence) {
      if (!issuer.is(by) && !issuer.knows(by, fence->time)) continue;
      if (fence->known->knows(write.thread, write.time)) return true;
      break;  // earlier fences knew no more
    }
  }
  return false;
}

void Shadow::global_write(const Access& access, uint64_t address, uint32_t bytes) {
  if (!async_proxy_) return;
  const uint64_t number = address / kPageBytes;
  if (last_page_.second == nullptr || last_page_.first != number) {
    last_page_ = {number, &pages_[number]};
  }
  const GlobalWrite write{stamp_of(access, access.time, global_fences_), access.site};
  const uint64_t first = address % kPageBytes / kUnitBytes;
  const uint64_t last = (address + bytes - 1) % kPageBytes / kUnitBytes;  // an access does not
                                                                          // cross a page
  for (uint64_t unit = first; unit <= last; ++unit) (*last_page_.second)[unit] = write;
}

void Shadow::check_global_fence(const Access& access, const Observer& issuer, uint64_t address,
                                uint64_t bytes) {
  Stamp judged;
  for (uint64_t at = address / kUnitBytes * kUnitBytes; at < address + bytes;) {
    const auto page = pages_.find(at / kPageBytes);
    const uint64_t end = std::min(address + bytes, (at / kPageBytes + 1) * kPageBytes);
    for (; at < end; at += kUnitBytes) {
      if (page == pages_.end()) continue;
      const GlobalWrite& write = page->second[at % kPageBytes / kUnitBytes];
      if (write.stamp.thread < 0 || write.stamp == judged) continue;
      judged = write.stamp;
      if (global_fences_.between(write.stamp, issuer)) continue;
      Access writer;
      writer.thread = write.stamp.thread;
      writer.site = write.site;
      report(HazardKind::kMissingProxyFence, access, &writer, 0, [&] {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that is only named
        const auto* const place = reinterpret_cast<const void*>(std::max(at, address));
        return "the " + copy_text(access) + " uses global memory at " + describe_address(place) +
               ", which " + thread_text(writer.thread) + " has written at " +
               to_string(write.site) +
               ", through the async proxy: no fence_proxy_async_global is between the two";
      });
      return;
    }
  }
}

uint32_t Shadow::bulk_write(const Access& access, const Observer& writer, uint32_t offset,
                            uint32_t bytes, const void* tensor) {
  check_fence(access, {&writer, 1}, offset, bytes);
  Write& write = new_write(access, offset);
  write.state = WriteState::kInFlight;
  write.source = tensor;
  write.before = last_write_[(offset >> granule_shift_)];
  return add_write(writer, bytes);
}

bool Shadow::last_written_by(uint32_t record, uint32_t offset, uint32_t bytes) const {
  const uint32_t* const first = &last_write_[(offset >> granule_shift_)];
  return std::all_of(first, first + (bytes >> granule_shift_),
                     [&](uint32_t write) { return write == record; });
}

// Returns the first granule with an ordinary store that no fence known to `issuers` covers, or -1.
int64_t Shadow::unfenced_granule(std::span<const Observer> issuers, uint32_t offset,
                                 uint32_t bytes) const {
  const uint32_t first = (offset >> granule_shift_);
  Stamp judged;
  for (uint32_t granule = first; granule < first + (bytes >> granule_shift_); ++granule) {
    const Stamp& stamp = stamps_[last_write_[granule]];
    if (stamp.thread < 0 || stamp == judged) continue;
    judged = stamp;
    for (const Observer& issuer : issuers) {
      if (!shared_fences_.between(stamp, issuer)) return granule;
    }
  }
  return -1;
}

void Shadow::check_fence(const Access& access, std::span<const Observer> issuers, uint32_t offset,
                         uint32_t bytes) {
  const int64_t found = unfenced_granule(issuers, offset, bytes);
  if (found < 0) return;
  const auto granule = static_cast<uint32_t>(found);
  report(HazardKind::kMissingProxyFence, access, nullptr, granule, [&] {
    return "the " + copy_text(access) + " uses " + place(granule, nullptr) + ", which " +
           thread_text(stamps_[last_write_[granule]].thread) +
           " has written, through the async proxy: no fence_proxy_async is between the two";
  });
}

void Shadow::make_room() {
  std::vector<Write> larger(writes_.size() * 2);
  for (uint32_t id = first_write_; id != next_write_; ++id) {
    larger[id & (larger.size() - 1)] = write_of(id);
  }
  writes_ = std::move(larger);
}

// Adds the record that new_write has returned.
uint32_t Shadow::add_write(const Observer& writer, uint32_t bytes) {
  const uint32_t id = next_write_++;
  const Write& write = write_of(id);
  in_flight_ += write.state == WriteState::kInFlight;
  const uint32_t first = (write.offset >> granule_shift_), count = (bytes >> granule_shift_);
  uint32_t* const writes = &last_write_[first];
  // Usually no thread has accessed the bytes since the last block_sync.
  bool untouched = true;
  for (uint32_t i = 0; i < count; ++i) untouched &= writes[i] < first_write_;
  for (uint32_t i = 0; i < count; ++i) untouched &= readers_[first + i].since != first_read_;
  if (!untouched && count == 1 && only_own_read(writer.thread, first)) untouched = true;
  bool found = untouched;  // one hazard per access is enough
  uint32_t judged = 0;     // granules of one access usually have the same history
  if (!untouched) judged_.assign(last_read_.size(), 0);
  for (uint32_t granule = first; !found && granule < first + count; ++granule) {
    const uint32_t before = last_write_[granule];
    if (before >= first_write_ && before != judged) {
      found = check_write(write, writer, granule, before);
      judged = before;
    }
    bool was_read = false;
    const auto judge_row = [&](size_t row) {
      const std::vector<uint32_t>& reads = last_read_[row];
      if (found || reads.empty() || reads[granule] < first_read_) return;
      was_read = true;
      if (reads[granule] == judged_[row]) return;
      found = check_readers(write, writer, granule, reads[granule]);
      judged_[row] = reads[granule];
    };
    const Readers& readers = readers_[granule];
    const uint32_t rows = readers.since == first_read_ ? readers.rows : 0;
    for (uint32_t rest = rows & ~kManyRows; rest != 0; rest &= rest - 1) {
      judge_row(static_cast<size_t>(std::countr_zero(rest)));
    }
    for (size_t row = 31; (rows & kManyRows) != 0 && row < last_read_.size(); ++row) judge_row(row);
    if (before == 0 && was_read && !found) resolve_uninitialized(granule);
  }
  std::fill(writes, writes + count, id);
  if (!async_proxy_) return id;
  stamps_.push_back(write.access.engine >= 0
                        ? Stamp{}
                        : stamp_of(write.access, write.access.time, shared_fences_));
  return id;
}

// True if the granule has not been written since the last block_sync, and of the reads since then
// there is only one, by the thread itself.
bool Shadow::only_own_read(int thread, uint32_t granule) {
  const uint32_t last = last_write_[granule];
  if (thread < 0 || last == 0 || last >= first_write_) return false;
  const auto row = static_cast<size_t>(warp_of(thread));
  if (row >= 31 || readers_[granule].rows != 1u << row) return false;
  const Read& read = read_of(last_read_[row][granule]);
  return !read.whole_warp && read.previous == 0 && read.lanes == 1u << thread % kWarpSize;
}

bool Shadow::check_write(const Write& now, const Observer& writer, uint32_t granule,
                         uint32_t before) {
  const Write& old = write_of(before);
  if (old.access.atomic && now.access.atomic) return false;
  if (old.access.engine >= 0) {
    if (writer.knows_engine(old.access.engine, old.access.engine_time)) return false;
    report_write(now, old, granule);
    return true;
  }
  if (old.state != WriteState::kInFlight && writer.knows(old.access.thread, old.landed_time)) {
    return false;
  }
  if (now.access.same_value && old.state == WriteState::kStored &&
      same_site(now.access.site, old.access.site) &&
      warp_of(now.access.thread) == warp_of(old.access.thread)) {
    report(HazardKind::kSameValueStore, now.access, nullptr, granule, [&] {
      return "lanes of warp " + std::to_string(warp_of(now.access.thread)) +
             " store the same value to " + place(granule, nullptr) + " with one instruction";
    });
    return true;
  }
  report_write(now, old, granule);
  return true;
}

// Checks read `id` and the earlier reads of its warp that are not ordered before it.
bool Shadow::check_readers(const Write& now, const Observer& writer, uint32_t granule,
                           uint32_t id) {
  for (; id >= first_read_; id = read_of(id).previous) {
    const Read& read = read_of(id);
    int reader = -1;
    if (read.access.engine >= 0) {
      if (writer.knows_engine(read.access.engine, read.access.engine_time)) continue;
      const bool knows_issue = writer.knows(read.access.thread, read.access.time);
      report_read(knows_issue ? HazardKind::kOverwriteWhileRead : name_of_race(read.access, now),
                  read, read.access.thread, granule, &now);
      return true;
    }
    if (read.whole_warp) {  // its lanes read for each other, so program order is not enough
      if (!writer.warp.knows(read.access.thread, read.access.time) &&
          (writer.own == nullptr || !writer.own->knows(read.access.thread, read.access.time))) {
        reader = read.access.thread;
      }
    } else {
      const int first_lane = read.access.thread / kWarpSize * kWarpSize;
      if (!writer.knows(read.access.thread, read.access.time)) reader = read.access.thread;
      for (uint32_t lanes = read.lanes; reader < 0 && lanes != 0; lanes &= lanes - 1) {
        const int lane = first_lane + std::countr_zero(lanes);
        if (!writer.knows(lane, read.access.time)) reader = lane;
      }
    }
    if (reader < 0) continue;
    report_read(name_of_race(read.access, now), read, reader, granule, &now);
    return true;
  }
  return false;
}

// Called for the first write of a granule by a thread that knows all earlier reads, which therefore
// read uninitialized memory.
void Shadow::resolve_uninitialized(uint32_t granule) {
  std::erase_if(pending_, [&](const Pending& pending) {
    if (pending.write != 0 || pending.granule != granule) return false;
    report_read(HazardKind::kUninitializedRead, read_of(pending.read), pending.thread, granule,
                nullptr);
    return true;
  });
}

uint32_t Shadow::add_read(const Read& read) {
  reads_.push_back(read);
  return first_read_ + static_cast<uint32_t>(reads_.size()) - 1;
}

uint32_t Shadow::begin_read(const Access& access) { return add_read({access, true, 0, 0}); }

void Shadow::read(uint32_t id, const Observer& reader, int thread, uint32_t offset,
                  uint32_t bytes) {
  const uint32_t first = (offset >> granule_shift_), count = (bytes >> granule_shift_);
  const uint32_t* writes = &last_write_[first];
  // Usually all bytes were written before the last block_sync.
  bool settled = true;
  for (uint32_t i = 0; i < count; ++i) {
    settled &= writes[i] - 1 < first_write_ - 1;  // not 0, and below first_write_
  }
  if (!settled) {
    uint32_t judged = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const bool judge = writes[i] == 0 || (writes[i] >= first_write_ && writes[i] != judged);
      if (judge && check_read(id, reader, thread, first + i, writes[i])) break;
      judged = writes[i];
    }
  }
  const auto row = static_cast<size_t>(warp_of(thread));
  uint32_t* const own = &row_of(row)[first];
  if (read_of(id).whole_warp) {  // also represents earlier reads of single lanes
    note_reader(row, first, count);
    std::fill(own, own + count, id);
    return;
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (own[i] >= first_read_) {
      own[i] = merge_reads(own[i], id, reader);
    } else {
      own[i] = id;
      note_reader(row, first + i, 1);
    }
  }
}

void Shadow::note_reader(size_t row, uint32_t first, uint32_t count) {
  const uint32_t bit = row < 31 ? 1u << row : kManyRows;
  for (uint32_t granule = first; granule < first + count; ++granule) {
    Readers& readers = readers_[granule];
    readers.rows = (readers.since == first_read_ ? readers.rows : 0) | bit;
    readers.since = first_read_;
  }
}

// Returns true if the read is a hazard or may turn out to be one.
bool Shadow::check_read(uint32_t id, const Observer& reader, int thread, uint32_t granule,
                        uint32_t write_id) {
  if (write_id == 0) {
    pending_.push_back({id, 0, granule, thread});
    return true;
  }
  const Read& read = read_of(id);
  const Write& write = write_of(write_id);
  const int writer = write.access.thread;
  if (write.access.engine >= 0) {
    if (reader.knows_engine(write.access.engine, write.access.engine_time)) return false;
    const bool knows_issue = reader.knows(writer, write.access.time);
    report_read(knows_issue ? HazardKind::kReadBeforeWait : name_of_race(read.access, write), read,
                thread, granule, &write);
    return true;
  }
  if (!reader.knows(writer, write.access.time)) {
    report_read(name_of_race(read.access, write), read, thread, granule, &write);
    return true;
  }
  if (write.state == WriteState::kStored) return false;
  if (write.state == WriteState::kInFlight) {
    const bool same_warp = warp_of(writer) == warp_of(thread);
    if (writer == thread || (same_warp && read.whole_warp)) {  // its wait, if any, comes later
      report_read(HazardKind::kReadBeforeWait, read, thread, granule, &write);
    } else {
      pending_.push_back({id, write_id, granule, thread});  // the wait may still come in this epoch
    }
    return true;
  }
  if (reader.knows(writer, write.landed_time)) return false;
  report_read(write.landed_step < read.access.step ? HazardKind::kReadBeforeBarrier
                                                   : HazardKind::kReadBeforeWait,
              read, thread, granule, &write);
  return true;
}

uint32_t Shadow::begin_async_read(const Access& access) {
  ++async_reads_;
  const auto rows = static_cast<size_t>(access.engine) + 1;
  if (last_read_.size() < rows) last_read_.resize(rows);
  row_of(rows - 1);
  return add_read({access, false, 0, 0});
}

const void* Shadow::async_read(uint32_t id, std::span<const Observer> issuers, uint32_t offset,
                               uint32_t bytes) {
  const uint32_t first = (offset >> granule_shift_), count = (bytes >> granule_shift_);
  const Access& access = read_of(id).access;
  const void* tensor = nullptr;
  uint32_t good = 0;
  for (uint32_t granule = first; granule < first + count; ++granule) {
    const uint32_t write = last_write_[granule];
    if (write == good && write != 0) continue;
    good = write;
    bool found = false;
    if (write == 0 || write >= first_write_) {
      if (write != 0 && write_of(write).access.engine >= 0) tensor = write_of(write).source;
      for (const Observer& issuer : issuers) {
        found = found || check_read(id, issuer, access.thread, granule, write);
      }
    }
    if (found) break;
  }
  check_fence(access, issuers, offset, bytes);
  // The engine works in order, so this read also represents earlier ones.
  std::fill_n(&last_read_[static_cast<size_t>(access.engine)][first], count, id);
  note_reader(static_cast<size_t>(access.engine), first, count);
  return tensor;
}

// Returns one number that represents both reads of a warp.
uint32_t Shadow::merge_reads(uint32_t before, uint32_t now, const Observer& reader) {
  if (before == merged_.before && now == merged_.now) return merged_.id;
  const Read old = read_of(before), read = read_of(now);
  if (reader.warp.knows(old.access.thread, old.access.time))
    return now;                               // there was a warp_sync
                                              // in between
  if (old.access.time != read.access.time) {  // only single lanes have synchronized since
    merged_ = {before, now, add_read({read.access, false, read.lanes, before})};
  } else {
    if (old.whole_warp || (old.lanes & read.lanes) == read.lanes) return before;
    merged_ = {before, now, add_read({read.access, false, old.lanes | read.lanes, old.previous})};
  }
  return merged_.id;
}

void Shadow::barrier() {
  resolve_pending();
  ++epoch_;
  if (in_flight_ == 0) first_write_ = next_write_;
  while (first_write_ != next_write_ && write_of(first_write_).state != WriteState::kInFlight) {
    ++first_write_;
  }
  if (async_reads_ > 0) return;  // no block_sync waits for them
  first_read_ += static_cast<uint32_t>(reads_.size());
  reads_.clear();
}

void Shadow::resolve_pending() {
  for (const Pending& pending : pending_) {
    const Read& read = read_of(pending.read);
    if (pending.write == 0) {
      // An unordered write followed, and that race has been reported.
      if (last_write_[pending.granule] != 0) continue;
      report_read(HazardKind::kUninitializedRead, read, pending.thread, pending.granule, nullptr);
    } else {
      const Write& write = write_of(pending.write);
      const bool waited_first = write.state == WriteState::kLanded &&
                                write.landed_epoch == epoch_ &&
                                write.landed_step < read.access.step;
      report_read(waited_first ? HazardKind::kReadBeforeBarrier : HazardKind::kReadBeforeWait, read,
                  pending.thread, pending.granule, &write);
    }
  }
  pending_.clear();
}

std::string Shadow::place(uint32_t granule, const Write* write) const {
  const uint32_t offset = granule << granule_shift_;
  std::string text = "shared memory at byte " + std::to_string(offset);
  if (write != nullptr && write->source != nullptr && write->access.engine < 0) {
    // adds the element that it holds: "(K[8192])"
    const char* source = static_cast<const char*>(write->source) + (offset - write->offset);
    text += " (" + describe_address(source) + ")";
  }
  return text;
}

void Shadow::report_read(HazardKind kind, const Read& read, int thread, uint32_t granule,
                         const Write* write) {
  Access reader = read.access;
  reader.thread = thread;
  // ldmatrix reads for its whole warp, whichever lane passed the address.
  const auto reader_text = [&] {
    if (read.access.engine >= 0) {
      return "the " + copy_text(read.access);
    }
    return read.whole_warp ? "warp " + std::to_string(warp_of(thread)) : thread_text(thread);
  };
  const auto at = [](const Access& access) { return " at " + to_string(access.site); };
  switch (kind) {
    case HazardKind::kReadBeforeWait:
      return report(kind, reader, &write->access, granule, [&] {
        return reader_text() + " reads " + place(granule, write) + " while the " +
               copy_text(write->access) + at(write->access) + " is in flight: no wait covers it";
      });
    case HazardKind::kReadBeforeBarrier:
      return report(kind, reader, &write->access, granule, [&] {
        return reader_text() + " reads " + place(granule, write) + ", written by " +
               writer_text(write->access) + at(write->access) + ", and no barrier orders the two";
      });
    case HazardKind::kOverwriteWhileRead:
      return report(kind, write->access, &reader, granule, [&] {
        return writer_text(write->access) + " overwrites " + place(granule, write) + " while " +
               reader_text() + " reads it" + at(reader) + ": no barrier orders the two";
      });
    default:
      return report(kind, reader, nullptr, granule, [&] {
        return reader_text() + " reads " + place(granule, nullptr) +
               ", which no thread has written";
      });
  }
}

void Shadow::report_write(const Write& now, const Write& old, uint32_t granule) {
  report(HazardKind::kWriteWrite, now.access, &old.access, granule, [&] {
    const bool bulk = old.access.engine >= 0;
    return writer_text(now.access) + " writes " + place(granule, &now) + ", and so does " +
           writer_text(old.access) + " at " + to_string(old.access.site) +
           (bulk                                 ? ": no wait for it is between the two"
            : old.state == WriteState::kInFlight ? ", whose cp.async is in flight"
                                                 : ": no barrier orders the two");
  });
}

void Shadow::report(HazardKind kind, const Access& where, const Access* other, uint32_t granule,
                    const std::function<std::string()>& text) {
  Hazard hazard;
  hazard.kind = kind;
  hazard.where = where.site;
  hazard.count = 1;
  hazard.block = block_;
  hazard.thread = where.thread;
  hazard.step = where.event_step;
  if (other != nullptr) {
    hazard.other = other->site;
    hazard.other_thread = other->thread;
    hazard.other_step = other->event_step;
  }
  hazard.address = granule << granule_shift_;
  if (log_.is_new(kind, where.site, block_)) hazard.text = text();
  log_.add(std::move(hazard));
}

}  // namespace fa::simt
