#include "common/simt/shadow.hpp"

#include <algorithm>

#include "common/simt/matrix.hpp"

namespace fa::simt {

namespace {

constexpr uint32_t kGranuleBytes = 2;

int warp_of(int thread) { return thread / kWarpSize; }

// Two accesses race; the one that comes first in the program gives the race its name.
HazardKind name_of_race(const Access& read, const Access& write) {
  return read.step < write.step ? HazardKind::kOverwriteWhileRead : HazardKind::kReadBeforeBarrier;
}

std::string thread_text(int thread) {
  return "thread " + std::to_string(thread) + " (warp " + std::to_string(warp_of(thread)) + ")";
}

}  // namespace

void Shadow::begin_block(int block, uint32_t smem_bytes) {
  block_ = block;
  epoch_ = 0;
  const size_t granules = (smem_bytes + kGranuleBytes - 1) / kGranuleBytes;
  last_write_.assign(granules, 0);
  reader_.assign(granules, 0);
  other_reader_.assign(granules, 0);
  if (writes_.empty()) writes_.resize(4096);
  first_write_ = next_write_ = 1;
  reads_.clear();
  first_read_ = 1;
  pending_.clear();
}

uint32_t Shadow::store(const Access& access, uint32_t offset, uint32_t bytes) {
  return add_write({access, epoch_, epoch_, access.warp_epoch, access.step, WriteState::kStored,
                    offset, nullptr},
                   bytes);
}

uint32_t Shadow::issue_copy(const Access& access, uint32_t offset, uint32_t bytes,
                            const void* source) {
  return add_write({access, epoch_, 0, 0, 0, WriteState::kInFlight, offset, source}, bytes);
}

void Shadow::land_copy(uint32_t record, const Access& wait) {
  Write& write = write_of(record);
  write.state = WriteState::kLanded;
  write.landed_epoch = epoch_;
  write.landed_warp_epoch = wait.warp_epoch;
  write.landed_step = wait.step;
}

uint32_t Shadow::add_write(const Write& write, uint32_t bytes) {
  if (next_write_ - first_write_ == writes_.size()) {
    std::vector<Write> larger(writes_.size() * 2);
    for (uint32_t id = first_write_; id != next_write_; ++id) {
      larger[id & (larger.size() - 1)] = write_of(id);
    }
    writes_ = std::move(larger);
  }
  const uint32_t id = next_write_++;
  write_of(id) = write;
  bool found = false;  // one hazard for each access is enough
  const uint32_t end = (write.offset + bytes) / kGranuleBytes;
  for (uint32_t granule = write.offset / kGranuleBytes; granule < end; ++granule) {
    if (last_write_[granule] >= first_write_) {
      found = found || check_write(write, granule, last_write_[granule]);
    }
    if (reader_[granule] >= first_read_) {
      found = found || check_reader(write, granule, reader_[granule]);
      if (other_reader_[granule] >= first_read_) {
        found = found || check_reader(write, granule, other_reader_[granule]);
      }
    }
    last_write_[granule] = id;
  }
  return id;
}

bool Shadow::check_write(const Write& now, uint32_t granule, uint32_t before) {
  const Write& old = write_of(before);
  if (old.state != WriteState::kInFlight) {
    const bool same_warp = warp_of(old.access.thread) == warp_of(now.access.thread);
    if (old.access.thread == now.access.thread || old.landed_epoch < epoch_ ||
        (same_warp && old.landed_warp_epoch < now.access.warp_epoch)) {
      return false;
    }
  }
  report_write(now, old, granule);
  return true;
}

bool Shadow::check_reader(const Write& now, uint32_t granule, uint32_t id) {
  const Read& read = read_of(id);
  const bool same_warp = warp_of(read.access.thread) == warp_of(now.access.thread);
  if (same_warp && read.access.warp_epoch < now.access.warp_epoch) return false;
  int reader = read.access.thread;
  if (!read.whole_warp && reader == now.access.thread) {
    if (read.other_thread < 0) return false;
    reader = read.other_thread;
  }
  report_read(name_of_race(read.access, now.access), read, reader, granule, &now);
  return true;
}

uint32_t Shadow::begin_read(const Access& access, bool whole_warp) {
  reads_.push_back({access, whole_warp, -1});
  return first_read_ + static_cast<uint32_t>(reads_.size()) - 1;
}

void Shadow::read(uint32_t id, int thread, uint32_t offset, uint32_t bytes) {
  const uint32_t first = offset / kGranuleBytes, count = bytes / kGranuleBytes;
  const uint32_t* writes = &last_write_[first];
  uint32_t* readers = &reader_[first];
  // Most often all bytes were written before the last barrier, and nobody has read them since.
  bool settled = true, unread = true;
  for (uint32_t i = 0; i < count; ++i) {
    settled &= writes[i] - 1 < first_write_ - 1;  // not 0, and below first_write_
    unread &= readers[i] < first_read_;
  }
  if (!settled) {
    for (uint32_t i = 0; i < count; ++i) {
      const bool judge = writes[i] == 0 || writes[i] >= first_write_;
      if (judge && check_read(id, thread, first + i, writes[i])) break;
    }
  }
  if (unread) {
    std::fill(readers, readers + count, id);
  } else {
    for (uint32_t i = 0; i < count; ++i) remember_reader(id, first + i);
  }
}

// Is what happened in `thread` at that epoch ordered before the read?
bool Shadow::before_read(int thread, uint32_t epoch, uint32_t warp_epoch, const Read& read) const {
  if (epoch < epoch_) return true;
  if (warp_of(thread) != warp_of(read.access.thread)) return false;
  return warp_epoch < read.access.warp_epoch || (!read.whole_warp && thread == read.access.thread);
}

// Returns true when the read is a hazard, or may turn out to be one.
bool Shadow::check_read(uint32_t id, int thread, uint32_t granule, uint32_t write_id) {
  if (write_id == 0) {
    pending_.push_back({id, 0, granule, thread});
    return true;
  }
  const Read& read = read_of(id);
  const Write& write = write_of(write_id);
  const int writer = write.access.thread;
  if (!before_read(writer, write.epoch, write.access.warp_epoch, read)) {
    report_read(name_of_race(read.access, write.access), read, thread, granule, &write);
    return true;
  }
  if (write.state == WriteState::kStored) return false;
  if (write.state == WriteState::kInFlight) {
    const bool same_warp = warp_of(writer) == warp_of(thread);
    if (writer == thread || (same_warp && read.whole_warp)) {  // its wait, if any, comes later
      report_read(HazardKind::kReadBeforeWait, read, thread, granule, &write);
    } else {
      pending_.push_back({id, write_id, granule, thread});  // the wait may still come this epoch
    }
    return true;
  }
  if (before_read(writer, write.landed_epoch, write.landed_warp_epoch, read)) return false;
  report_read(write.landed_step < read.access.step ? HazardKind::kReadBeforeBarrier
                                                   : HazardKind::kReadBeforeWait,
              read, thread, granule, &write);
  return true;
}

void Shadow::remember_reader(uint32_t id, uint32_t granule) {
  uint32_t& reader = reader_[granule];
  uint32_t& other = other_reader_[granule];
  const int warp = warp_of(read_of(id).access.thread);
  if (reader < first_read_ || warp_of(read_of(reader).access.thread) == warp) {
    reader = merge_readers(reader, id);
  } else if (other < first_read_ || warp_of(read_of(other).access.thread) == warp) {
    other = merge_readers(other, id);
  }
  // Else two other warps have read it: whoever writes it next races with one of them anyway.
}

// One record that stands for two reads of the same warp.
uint32_t Shadow::merge_readers(uint32_t before, uint32_t now) {
  if (before < first_read_) return now;
  const Read old = read_of(before), read = read_of(now);
  if (old.access.warp_epoch < read.access.warp_epoch || read.whole_warp) return now;
  if (old.whole_warp) return before;
  if (old.access.thread == read.access.thread && old.other_thread == read.other_thread) return now;
  if (old.other_thread == read.access.thread) return before;
  const uint32_t both = begin_read(read.access, false);
  read_of(both).other_thread =
      old.access.thread != read.access.thread ? old.access.thread : old.other_thread;
  return both;
}

void Shadow::barrier() {
  resolve_pending();
  ++epoch_;
  while (first_write_ != next_write_ && write_of(first_write_).state != WriteState::kInFlight) {
    ++first_write_;
  }
  first_read_ += static_cast<uint32_t>(reads_.size());
  reads_.clear();
}

void Shadow::resolve_pending() {
  for (const Pending& pending : pending_) {
    const Read& read = read_of(pending.read);
    if (pending.write == 0) {
      const uint32_t last = last_write_[pending.granule];
      // Written since by somebody it races with: that has been reported as the race it is.
      if (last != 0 && !before_read(write_of(last).access.thread, write_of(last).epoch,
                                    write_of(last).access.warp_epoch, read)) {
        continue;
      }
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
  const uint32_t offset = granule * kGranuleBytes;
  std::string text = "shared memory at byte " + std::to_string(offset);
  if (write != nullptr && write->source != nullptr) {  // "(K[8192])": which element it holds
    const char* source = static_cast<const char*>(write->source) + (offset - write->offset);
    text += " (" + describe_address(source) + ")";
  }
  return text;
}

void Shadow::report_read(HazardKind kind, const Read& read, int thread, uint32_t granule,
                         const Write* write) {
  Access reader = read.access;
  reader.thread = thread;
  // ldmatrix reads for its whole warp, whoever gave the address.
  const auto reader_text = [&] {
    return read.whole_warp ? "warp " + std::to_string(warp_of(thread)) : thread_text(thread);
  };
  const auto at = [](const Access& access) { return " at " + to_string(access.site); };
  switch (kind) {
    case HazardKind::kReadBeforeWait:
      return report(kind, reader, &write->access, granule, [&] {
        return reader_text() + " reads " + place(granule, write) + " while the cp.async of " +
               thread_text(write->access.thread) + at(write->access) +
               " is in flight: no wait covers it";
      });
    case HazardKind::kReadBeforeBarrier:
      return report(kind, reader, &write->access, granule, [&] {
        return reader_text() + " reads " + place(granule, write) + ", written by " +
               thread_text(write->access.thread) + at(write->access) +
               ", and no barrier stands between";
      });
    case HazardKind::kOverwriteWhileRead:
      return report(kind, write->access, &reader, granule, [&] {
        return thread_text(write->access.thread) + " overwrites " + place(granule, write) +
               " while " + reader_text() + " reads it" + at(reader) + ": no barrier stands between";
      });
    default:
      return report(kind, reader, nullptr, granule, [&] {
        return reader_text() + " reads " + place(granule, nullptr) + ", which nobody has written";
      });
  }
}

void Shadow::report_write(const Write& now, const Write& old, uint32_t granule) {
  report(HazardKind::kWriteWrite, now.access, &old.access, granule, [&] {
    return thread_text(now.access.thread) + " writes " + place(granule, &now) + ", and so does " +
           thread_text(old.access.thread) + " at " + to_string(old.access.site) +
           (old.state == WriteState::kInFlight ? ", whose cp.async is in flight"
                                               : ": no barrier stands between");
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
  hazard.address = granule * kGranuleBytes;
  if (log_.is_new(kind, where.site, block_)) hazard.text = text();
  log_.add(std::move(hazard));
}

}  // namespace fa::simt
