// Memory accesses: cp.async, plain loads and stores, atomics and fences.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>

#include "common/simt/begin.hpp"
#include "common/simt/block.hpp"
#include "common/simt/device.hpp"

namespace emulator {

namespace {

using namespace fa::simt;

// Reports a store of accumulators that are in flight.
void check_stored(const void* value, size_t bytes, const Site& site) {
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    uint32_t word;
    std::memcpy(&word, static_cast<const char*>(value) + at, sizeof word);
    if (detail::is_poison(word)) [[unlikely]]
      detail::check_landed(word, site.line, site.file);
  }
}

// Tells the block which value a load returned (its first 8 bytes), so that it detects polling.
void note_load(Thread& thread, uint64_t address, const void* value, size_t bytes,
               const Site& site) {
  thread.block->note_load(thread, address, first_bits(value, bytes), site);
}

bool same_bytes(const void* a, const void* b, size_t bytes) {
  if (bytes != 4) return std::memcmp(a, b, bytes) == 0;
  uint32_t x, y;
  std::memcpy(&x, a, 4);
  std::memcpy(&y, b, 4);
  return x == y;
}

// Records an ordinary write to memory that an async access may use later.
void note_global_write(const Thread& thread, const void* p, size_t bytes, const Site& site) {
  const auto address = reinterpret_cast<uint64_t>(p);
  if (!thread.block->launch().run.hazards) return;
  thread.block->shadow().global_write(stamp(thread, site), address, static_cast<uint32_t>(bytes));
}

// Begins an atomic access, that is, logs it and adds it to a warp instruction.
bool begin_atomic(Thread& thread, Instruction instruction, const char* verb, const void* p,
                  size_t bytes, bool writes, const Site& site) {
  Block& block = *thread.block;
  if (!global_ok(block, thread, site, verb, p, bytes, bytes)) return false;
  if (WarpAccess* access = block.join_load(thread, instruction, site, static_cast<int>(bytes),
                                           reinterpret_cast<uint64_t>(p))) {
    access->sizes[static_cast<size_t>(thread.lane)] = static_cast<uint8_t>(bytes);
    access->global[static_cast<size_t>(thread.lane)] = reinterpret_cast<uint64_t>(p);
  }
  block.note_global(thread, writes ? GlobalUse::kAtomic : GlobalUse::kAtomicRead, site, p, bytes);
  if (writes) note_global_write(thread, p, bytes, site);
  return true;
}

template <class T>
T add_atomically(T* p, T value, const Site& site) {
  Thread& thread = begin(site);
  Block& block = *thread.block;
  if (!begin_atomic(thread, Instruction::kAtomicAdd, "adds to", p, sizeof(T), true, site))
    return {};
  GlobalClocks& clocks = block.launch().clocks;
  const auto address = reinterpret_cast<uint64_t>(p);
  T before;
  {
    const std::lock_guard lock(clocks.mutex);
    before = std::atomic_ref(*p).fetch_add(value);
    const auto found = clocks.released.find(address);
    if (found != clocks.released.end() && found->second != thread.last_met) {
      thread.last_met = found->second;
      thread.met = join(thread.met, found->second);
    }
    if (thread.fenced != nullptr) {
      std::shared_ptr<const Foreign>& released = clocks.released[address];
      released = join(released, thread.fenced);
    }
  }
  if (value == T{}) {  // only reads, so it may be a poll
    uint64_t bits = 0;
    std::memcpy(&bits, &before, sizeof before);
    block.note_load(thread, address, bits, site);
  } else {
    block.note_progress();
  }
  return before;
}

}  // namespace

void cp_async_16(uint32_t dst, const void* src, int source_bytes, int line, const char* file) {
  detail::cp_async(dst, src, 16, source_bytes, line, file);
}

void cp_async_commit(int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  if (WarpAccess* access = thread.block->join(thread, Instruction::kCpAsyncCommit, site, 0)) {
    access->group = thread.open_group;
  }
  ++thread.open_group;
}

float atomic_add(float* p, float value, int line, const char* file) {
  detail::checked(value, line, file);
  return add_atomically(p, value, {file, line});
}
int atomic_add(int* p, int value, int line, const char* file) {
  return add_atomically(p, value, {file, line});
}

int load_acquire(const int* p, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  Block& block = *thread.block;
  if (!begin_atomic(thread, Instruction::kLoadAcquire, "reads", p, sizeof *p, false, site))
    return -1;
  GlobalClocks& clocks = block.launch().clocks;
  const auto address = reinterpret_cast<uint64_t>(p);
  int value;
  std::shared_ptr<const Foreign> released;
  {
    const std::lock_guard lock(clocks.mutex);
    value = std::atomic_ref(*const_cast<int*>(p)).load();
    const auto found = clocks.released.find(address);
    if (found != clocks.released.end()) released = found->second;
  }
  block.acquire_from_others(thread, released);
  block.note_load(thread, address, static_cast<uint32_t>(value), site);
  return value;
}

void store_release(int* p, int value, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.note_progress();
  if (!begin_atomic(thread, Instruction::kStoreRelease, "writes", p, sizeof *p, true, site)) return;
  GlobalClocks& clocks = block.launch().clocks;
  const std::shared_ptr<const Foreign> released = block.release_to_others(thread);
  const std::lock_guard lock(clocks.mutex);
  std::atomic_ref(*p).store(value);
  clocks.released[reinterpret_cast<uint64_t>(p)] = released;
}

void thread_fence(int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.join(thread, Instruction::kThreadFence, site, 0);
  block.acquire_from_others(thread, thread.met);
  thread.met = thread.last_met = nullptr;
  thread.fenced = block.release_to_others(thread);
}

namespace detail {

void cp_async(uint32_t dst, const void* src, int copy_bytes, int source_bytes, int line,
              const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.note_progress();
  if (source_bytes < 0 || source_bytes > copy_bytes) {
    block.report(HazardKind::kOutOfBounds, thread, site, reinterpret_cast<uint64_t>(src), [&] {
      return "passes " + std::to_string(source_bytes) +
             " source bytes to cp.async, which takes 0 to " + std::to_string(copy_bytes);
    });
    return;
  }
  const auto bytes = static_cast<uint32_t>(source_bytes), size = static_cast<uint32_t>(copy_bytes);
  if (!shared_ok(block, thread, site, "copies to", dst, size, size)) return;
  if (bytes > 0) {
    if (!global_ok(block, thread, site, "copies", src, bytes, size)) return;
    block.note_global(thread, GlobalUse::kRead, site, src, bytes);
  }

  const uint32_t offset = dst - kSharedBase;
  if (WarpAccess* access = block.join(thread, Instruction::kCpAsync, site, copy_bytes)) {
    const auto lane = static_cast<size_t>(thread.lane);
    access->group = thread.open_group;
    access->sizes[lane] = static_cast<uint8_t>(bytes);
    access->shared[lane] = offset;
    access->global[lane] = reinterpret_cast<uint64_t>(src);
  }
  uint32_t record = 0;
  if (block.launch().run.hazards) {
    record = block.shadow().issue_copy(stamp(thread, site), observer(thread), offset, size,
                                       bytes > 0 ? src : nullptr);
  }
  std::memset(block.shared() + offset, 0xff, size);  // a read before the wait returns NaN
  thread.copies.push_back({offset, src, bytes, size, record, thread.open_group});
}

void cp_async_wait(int pending_groups, const char* label, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kCpAsyncWait, site, label)) return;
  Thread& thread = begin(site);
  Block& block = *thread.block;
  pending_groups += block.sync_site(Instruction::kCpAsyncWait, site, label).more_groups;
  const int land_before = thread.open_group - pending_groups;  // number of the first group that may
                                                               // stay in flight
  if (WarpAccess* access = block.join(thread, Instruction::kCpAsyncWait, site, 0)) {
    access->pending_groups = pending_groups;
    access->first_landed = thread.landed_groups;
    access->group = land_before - 1;
  }
  if (land_before > thread.landed_groups) thread.landed_groups = land_before;
  while (thread.landed < thread.copies.size() && thread.copies[thread.landed].group < land_before) {
    const Copy& copy = thread.copies[thread.landed++];
    unsigned char* target = block.shared() + copy.offset;
    if (copy.bytes > 0) copy_global(target, copy.source, copy.bytes);
    std::memset(target + copy.bytes, 0, copy.size - copy.bytes);
    if (block.launch().run.hazards) block.shadow().land_copy(copy.record, stamp(thread, site));
  }
  if (thread.landed == thread.copies.size()) {
    thread.copies.clear();
    thread.landed = 0;
  }
}

void load_global(void* value, const void* p, size_t bytes, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  Block& block = *thread.block;
  if (!global_ok(block, thread, site, "reads", p, bytes, bytes)) {
    std::memset(value, 0xff, bytes);
    return;
  }
  if (WarpAccess* access =
          block.join_load(thread, Instruction::kLoadGlobal, site, static_cast<int>(bytes),
                          reinterpret_cast<uint64_t>(p))) {
    access->sizes[static_cast<size_t>(thread.lane)] = static_cast<uint8_t>(bytes);
    access->global[static_cast<size_t>(thread.lane)] = reinterpret_cast<uint64_t>(p);
  }
  block.note_global(thread, GlobalUse::kRead, site, p, bytes);
  copy_global(value, p, bytes);
  note_load(thread, reinterpret_cast<uint64_t>(p), value, bytes, site);
}

void store_global(void* p, const void* value, size_t bytes, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.note_progress();
  if (!global_ok(block, thread, site, "writes", p, bytes, bytes)) return;
  if (WarpAccess* access =
          block.join(thread, Instruction::kStoreGlobal, site, static_cast<int>(bytes))) {
    access->sizes[static_cast<size_t>(thread.lane)] = static_cast<uint8_t>(bytes);
    access->global[static_cast<size_t>(thread.lane)] = reinterpret_cast<uint64_t>(p);
  }
  check_stored(value, bytes, site);
  const bool keeps = block.launch().run.cuda_rules && same_bytes(p, value, bytes);
  block.note_global(thread, GlobalUse::kWrite, site, p, bytes, keeps);
  note_global_write(thread, p, bytes, site);
  copy_global(p, value, bytes);
}

void load_shared(void* value, uint32_t addr, size_t bytes, int line, const char* file) {
  const Site site{file, line};
  const auto size = static_cast<uint32_t>(bytes);
  Thread& thread = begin(site);
  Block& block = *thread.block;
  if (!shared_ok(block, thread, site, "reads", addr, size, size)) {
    std::memset(value, 0xff, bytes);
    return;
  }
  const uint32_t offset = addr - kSharedBase;
  if (WarpAccess* access = block.join_load(thread, Instruction::kLoadShared, site,
                                           static_cast<int>(bytes), offset)) {
    access->shared[static_cast<size_t>(thread.lane)] = offset;
  }
  if (block.launch().run.hazards) {
    block.shadow().load(stamp(thread, site), observer(thread), offset, size);
    block.note_shared(thread, GlobalUse::kRead, site, block, offset, size);
  }
  copy_small(value, block.shared() + offset, bytes);
  note_load(thread, offset, value, bytes, site);
}

void store_shared(uint32_t addr, const void* value, size_t bytes, int line, const char* file) {
  const Site site{file, line};
  const auto size = static_cast<uint32_t>(bytes);
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.note_progress();
  if (!shared_ok(block, thread, site, "writes", addr, size, size)) return;
  check_stored(value, bytes, site);
  const uint32_t offset = addr - kSharedBase;
  if (WarpAccess* access =
          block.join(thread, Instruction::kStoreShared, site, static_cast<int>(bytes))) {
    access->shared[static_cast<size_t>(thread.lane)] = offset;
  }
  if (block.launch().run.hazards) {
    Access access = stamp(thread, site);
    access.same_value =
        block.launch().run.cuda_rules && same_bytes(block.shared() + offset, value, bytes);
    block.shadow().store(access, observer(thread), offset, size);
    block.note_shared(thread, GlobalUse::kWrite, site, block, offset, size);
  }
  copy_small(block.shared() + offset, value, bytes);
}

}  // namespace detail

}  // namespace emulator
