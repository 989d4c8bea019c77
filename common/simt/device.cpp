// The kernel-facing functions: what one thread does when it calls them.

#include "common/simt/device.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "common/simt/block.hpp"
#include "common/simt/matrix.hpp"

namespace emulator {

namespace {

using namespace fa::simt;

constexpr uint32_t kCopyBytes = 16;
constexpr uint32_t kRowBytes = 16;  // of an 8x8 matrix

Access stamp(const Thread& thread, const Site& site) {
  return {thread.index, thread.warp->time, step_of(thread), event_step(thread), site};
}

std::string bytes_text(const char* verb, size_t bytes) {
  return std::string(verb) + " " + std::to_string(bytes) + " bytes at ";
}

// Reports and returns false unless bytes [addr, addr + bytes) are in the block's shared memory and
// addr is a multiple of `alignment`.
bool shared_ok(Block& block, const Thread& thread, const Site& site, const char* verb,
               uint32_t addr, uint32_t bytes, uint32_t alignment) {
  const uint32_t size = block.launch().smem_bytes;
  const int64_t offset = static_cast<int64_t>(addr) - kSharedBase;
  if (offset < 0 || offset + bytes > size) {
    block.report(HazardKind::kOutOfBounds, thread, site, addr, [&] {
      return bytes_text(verb, bytes) + "byte " + std::to_string(offset) +
             " of dynamic shared memory, which has " + std::to_string(size);
    });
    return false;
  }
  if (addr % alignment != 0) {
    block.report(HazardKind::kMisaligned, thread, site, addr, [&] {
      return bytes_text(verb, bytes) + "byte " + std::to_string(offset) +
             " of shared memory, which is not a multiple of " + std::to_string(alignment);
    });
    return false;
  }
  return true;
}

bool global_ok(Block& block, const Thread& thread, const Site& site, const char* verb,
               const void* p, size_t bytes, size_t alignment) {
  const auto address = reinterpret_cast<uint64_t>(p);
  if (!block.global_ok(address, bytes)) {
    block.report(HazardKind::kOutOfBounds, thread, site, address, [&] {
      return bytes_text(verb, bytes) + describe_address(p) + ", outside every registered buffer";
    });
    return false;
  }
  if (address % alignment != 0) {
    block.report(HazardKind::kMisaligned, thread, site, address, [&] {
      return bytes_text(verb, bytes) + describe_address(p) +
             ", whose address is not a multiple of " + std::to_string(alignment);
    });
    return false;
  }
  return true;
}

// Blocks on two CPU threads may race here, if the kernel does. The emulator reports that itself;
// the thread sanitizer is to look for races of the emulator's own.
void copy_global(void* to, const void* from, size_t bytes) {
#ifdef FA_SIMT_TSAN
  for (size_t i = 0; i < bytes; ++i) {
    const char byte = __atomic_load_n(static_cast<const char*>(from) + i, __ATOMIC_RELAXED);
    __atomic_store_n(static_cast<char*>(to) + i, byte, __ATOMIC_RELAXED);
  }
#else
  std::memcpy(to, from, bytes);
#endif
}

[[noreturn]] void fail_partial_warp(const Warp& warp) {
  throw std::runtime_error("a warp-wide instruction needs 32 lanes, but this warp has " +
                           std::to_string(warp.lanes) +
                           ": launch blocks of a multiple of 32 threads");
}

// The running thread, which begins an instruction of its own.
Thread& begin(const Site& site) {
  Thread& thread = current_thread();
  thread.block->begin_instruction(thread, site);
  return thread;
}

// Likewise, for an instruction of the whole warp.
Thread& begin_warp_wide(const Site& site) {
  Thread& thread = begin(site);
  if (thread.warp->lanes != kWarpSize) fail_partial_warp(*thread.warp);
  return thread;
}

Instruction ldmatrix_instruction(int count, bool trans) {
  if (count == 1) return trans ? Instruction::kLdmatrixX1Trans : Instruction::kLdmatrixX1;
  if (count == 2) return trans ? Instruction::kLdmatrixX2Trans : Instruction::kLdmatrixX2;
  return trans ? Instruction::kLdmatrixX4Trans : Instruction::kLdmatrixX4;
}

// Loads the matrices for the whole warp, when all lanes have brought their addresses.
[[gnu::noinline]] void execute_ldmatrix(const Thread& last, int count, bool trans,
                                        const Site& site) {
  Block& block = *last.block;
  Warp& warp = *last.warp;
  const Observer reader = observer(warp);
  block.note_progress();
  static constexpr unsigned char kNaN[kRowBytes] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                    255, 255, 255, 255, 255, 255, 255, 255};
  const bool hazards = block.launch().run.hazards;
  uint32_t record = 0;
  if (hazards) {
    Access access = stamp(last, site);
    access.thread = warp.first->index;
    record = block.shadow().begin_read(access);
  }
  for (int matrix = 0; matrix < count; ++matrix) {
    const unsigned char* rows[8];
    for (int row = 0; row < 8; ++row) {
      const int lane = matrix * 8 + row;
      const Thread& thread = warp.first[lane];
      const uint32_t addr = warp.addresses[lane];
      if (!shared_ok(block, thread, site, "reads", addr, kRowBytes, kRowBytes)) {
        rows[row] = kNaN;
        continue;
      }
      const uint32_t offset = addr - kSharedBase;
      rows[row] = block.shared() + offset;
      if (hazards) block.shadow().read(record, reader, thread.index, offset, kRowBytes);
    }
    load_matrix(rows, trans, warp.registers, matrix);
  }
  uint32_t offsets[kWarpSize];
  for (int lane = 0; lane < kWarpSize; ++lane) offsets[lane] = warp.addresses[lane] - kSharedBase;
  block.traffic().ldmatrix(warp.index, ldmatrix_instruction(count, trans), site, offsets, count);
}

template <class T>
constexpr Instruction kMmaOf = std::is_same_v<T, bf16> ? Instruction::kMma : Instruction::kMmaFp16;

template <class T>
[[gnu::noinline]] void execute_mma(const Thread& last, const Site& site) {
  Warp& warp = *last.warp;
  multiply_accumulate<T>(warp.a, warp.b, warp.c);
  last.block->note_progress();
  last.block->traffic().collective(warp.index, kMmaOf<T>, site);
}

[[gnu::noinline]] void execute_shuffle(const Thread& last, Instruction instruction,
                                       const Site& site) {
  Warp& warp = *last.warp;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    *warp.c[lane] = warp.values[(lane ^ warp.masks[lane]) & (kWarpSize - 1)];
  }
  last.block->traffic().collective(warp.index, instruction, site);
}

[[gnu::noinline]] void execute_vote(const Thread& last, const Site& site) {
  Warp& warp = *last.warp;
  uint32_t any = 0;
  for (const uint32_t* vote : warp.registers) any |= *vote;
  for (uint32_t* vote : warp.registers) *vote = any;
  last.block->traffic().collective(warp.index, Instruction::kVote, site);
}

// Does this run do without the barrier or wait that the running thread is at?
bool skips(Instruction instruction, const Site& site, const char* label) {
  Thread& thread = current_thread();
  return thread.block->sync_site(instruction, site, label).skipped_by(thread);
}

Thread& begin_at_barrier(int barrier, int threads, const Site& site) {
  Thread& thread = begin(site);
  const int most = thread.block->launch().threads;
  if (barrier < 1 || barrier >= kNumBarriers) {
    throw std::runtime_error("barrier " + std::to_string(barrier) +
                             ": named barriers are 1 to 15; 0 is block_sync's");
  }
  if (threads < kWarpSize || threads > most || threads % kWarpSize != 0) {
    throw std::runtime_error(
        "barrier " + std::to_string(barrier) + " for " + std::to_string(threads) +
        " threads: it takes whole warps, at most the block's " + std::to_string(most) + " threads");
  }
  return thread;
}

// For a thread that polls: have the bytes changed, or the first 8 of them?
void note_load(Thread& thread, uint64_t address, const void* value, size_t bytes,
               const Site& site) {
  uint64_t bits = 0;
  std::memcpy(&bits, value, std::min(bytes, sizeof bits));
  thread.block->note_load(thread, address, bits, site);
}

}  // namespace

int thread_index() { return current_thread().place.x; }
int block_index() { return current_thread().block->place().x; }
Dim3 thread_index_3d() { return current_thread().place; }
Dim3 block_index_3d() { return current_thread().block->place(); }
Dim3 block_size() { return current_thread().block->launch().config.block; }
Dim3 grid_size() { return current_thread().block->launch().config.grid; }
uint32_t dynamic_smem() { return kSharedBase; }

void cp_async_16(uint32_t dst, const void* src, int source_bytes, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.note_progress();
  if (source_bytes < 0 || source_bytes > static_cast<int>(kCopyBytes)) {
    block.report(HazardKind::kOutOfBounds, thread, site, reinterpret_cast<uint64_t>(src), [&] {
      return "asks cp.async for " + std::to_string(source_bytes) + " of 16 bytes";
    });
    return;
  }
  const auto bytes = static_cast<uint32_t>(source_bytes);
  if (!shared_ok(block, thread, site, "copies to", dst, kCopyBytes, kCopyBytes)) return;
  if (bytes > 0) {
    if (!global_ok(block, thread, site, "copies", src, bytes, kCopyBytes)) return;
    block.note_global(thread, GlobalUse::kRead, site, src, bytes);
  }

  const uint32_t offset = dst - kSharedBase;
  if (WarpAccess* access = block.join(thread, Instruction::kCpAsync, site, kCopyBytes)) {
    const auto lane = static_cast<size_t>(thread.lane);
    access->group = thread.open_group;
    access->sizes[lane] = static_cast<uint8_t>(bytes);
    access->shared[lane] = offset;
    access->global[lane] = reinterpret_cast<uint64_t>(src);
  }
  uint32_t record = 0;
  if (block.launch().run.hazards) {
    record = block.shadow().issue_copy(stamp(thread, site), observer(thread), offset, kCopyBytes,
                                       bytes > 0 ? src : nullptr);
  }
  std::memset(block.shared() + offset, 0xff, kCopyBytes);  // whoever reads it now reads NaN
  thread.copies.push_back({offset, src, bytes, record, thread.open_group});
}

void cp_async_commit(int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  if (WarpAccess* access = thread.block->join(thread, Instruction::kCpAsyncCommit, site, 0)) {
    access->group = thread.open_group;
  }
  ++thread.open_group;
}

float shfl_xor(float value, int lane_mask, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  Warp& warp = *thread.warp;
  float result = 0;
  warp.values[thread.lane] = value;
  warp.masks[thread.lane] = lane_mask;
  warp.c[thread.lane] = &result;
  if (thread.block->meet(thread, Instruction::kShuffle, site)) {
    execute_shuffle(thread, Instruction::kShuffle, site);
  }
  return result;
}

int shfl(int value, int source, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  Warp& warp = *thread.warp;
  float result = 0;
  warp.values[thread.lane] = std::bit_cast<float>(value);
  warp.masks[thread.lane] = thread.lane ^ source;
  warp.c[thread.lane] = &result;
  if (thread.block->meet(thread, Instruction::kShuffleFrom, site)) {
    execute_shuffle(thread, Instruction::kShuffleFrom, site);
  }
  return std::bit_cast<int>(result);
}

bool warp_any(bool condition, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  uint32_t vote = condition;
  thread.warp->registers[thread.lane] = &vote;
  if (thread.block->meet(thread, Instruction::kVote, site)) execute_vote(thread, site);
  return vote != 0;
}

template <class T>
void mma_m16n8k16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], int line,
                  const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  Warp& warp = *thread.warp;
  warp.a[thread.lane] = a;
  warp.b[thread.lane] = b;
  warp.c[thread.lane] = c;
  if (thread.block->meet(thread, kMmaOf<T>, site)) execute_mma<T>(thread, site);
}
template void mma_m16n8k16<bf16>(const uint32_t (&)[4], const uint32_t (&)[2], float (&)[4], int,
                                 const char*);
template void mma_m16n8k16<fp16>(const uint32_t (&)[4], const uint32_t (&)[2], float (&)[4], int,
                                 const char*);
void mma_m16n8k16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], int line,
                  const char* file) {
  mma_m16n8k16<bf16>(a, b, c, line, file);
}

void tile_row(int row, int columns) {
  Thread& thread = current_thread();
  if (thread.index == 0) {
    Block& block = *thread.block;
    block.traffic().tiles().push_back({block.index(), row, columns, {}});
  }
}

void tile_visit(int column, bool masked) {
  Thread& thread = current_thread();
  if (thread.index == 0) thread.block->traffic().tiles().back().visits.push_back({column, masked});
}

void block_sync(int line, const char* file) { block_sync("", line, file); }

void block_sync(const char* label, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kBlockSync, site, label)) return;
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.sync(thread, Instruction::kBlockSync, 0, block.launch().threads, site);
}

void warp_sync(int line, const char* file) { warp_sync("", line, file); }

void warp_sync(const char* label, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kWarpSync, site, label)) return;
  Thread& thread = begin(site);
  Block& block = *thread.block;
  if (block.meet(thread, Instruction::kWarpSync, site)) {
    block.sync_warp(*thread.warp);
    block.traffic().collective(thread.warp->index, Instruction::kWarpSync, site);
  }
}

void barrier_sync(int barrier, int threads, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kBarrierSync, site, "")) return;
  Thread& thread = begin_at_barrier(barrier, threads, site);
  thread.block->sync(thread, Instruction::kBarrierSync, barrier, threads, site);
}

void barrier_arrive(int barrier, int threads, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kBarrierArrive, site, "")) return;
  Thread& thread = begin_at_barrier(barrier, threads, site);
  thread.block->sync(thread, Instruction::kBarrierArrive, barrier, threads, site);
}

namespace {

// An atomic access of `thread`: its place in the log, its part of a warp instruction.
bool begin_atomic(Thread& thread, Instruction instruction, const char* verb, const void* p,
                  size_t bytes, const Site& site) {
  Block& block = *thread.block;
  if (!global_ok(block, thread, site, verb, p, bytes, bytes)) return false;
  if (WarpAccess* access = block.join_load(thread, instruction, site, static_cast<int>(bytes),
                                           reinterpret_cast<uint64_t>(p))) {
    access->sizes[static_cast<size_t>(thread.lane)] = static_cast<uint8_t>(bytes);
    access->global[static_cast<size_t>(thread.lane)] = reinterpret_cast<uint64_t>(p);
  }
  block.note_global(thread, GlobalUse::kAtomic, site, p, bytes);
  return true;
}

template <class T>
T add_atomically(T* p, T value, const Site& site) {
  Thread& thread = begin(site);
  Block& block = *thread.block;
  if (!begin_atomic(thread, Instruction::kAtomicAdd, "adds to", p, sizeof(T), site)) return {};
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
  if (value == T{}) {  // looks, and changes nothing
    uint64_t bits = 0;
    std::memcpy(&bits, &before, sizeof before);
    block.note_load(thread, address, bits, site);
  } else {
    block.note_progress();
  }
  return before;
}

}  // namespace

float atomic_add(float* p, float value, int line, const char* file) {
  return add_atomically(p, value, {file, line});
}
int atomic_add(int* p, int value, int line, const char* file) {
  return add_atomically(p, value, {file, line});
}

int load_acquire(const int* p, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  Block& block = *thread.block;
  if (!begin_atomic(thread, Instruction::kLoadAcquire, "reads", p, sizeof *p, site)) return -1;
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
  if (!begin_atomic(thread, Instruction::kStoreRelease, "writes", p, sizeof *p, site)) return;
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

void cp_async_wait(int pending_groups, const char* label, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kCpAsyncWait, site, label)) return;
  Thread& thread = begin(site);
  Block& block = *thread.block;
  pending_groups += block.sync_site(Instruction::kCpAsyncWait, site, label).more_groups;
  const int land_before = thread.open_group - pending_groups;  // number of the first that may fly
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
    std::memset(target + copy.bytes, 0, kCopyBytes - copy.bytes);
    if (block.launch().run.hazards) block.shadow().land_copy(copy.record, stamp(thread, site));
  }
  if (thread.landed == thread.copies.size()) {
    thread.copies.clear();
    thread.landed = 0;
  }
}

void ldmatrix(uint32_t* r, int count, bool trans, uint32_t addr, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  Warp& warp = *thread.warp;
  warp.registers[thread.lane] = r;
  warp.addresses[thread.lane] = addr;
  if (thread.block->meet(thread, ldmatrix_instruction(count, trans), site)) {
    execute_ldmatrix(thread, count, trans, site);
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
  block.note_global(thread, GlobalUse::kWrite, site, p, bytes);
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
  }
  std::memcpy(value, block.shared() + offset, bytes);
  note_load(thread, offset, value, bytes, site);
}

void store_shared(uint32_t addr, const void* value, size_t bytes, int line, const char* file) {
  const Site site{file, line};
  const auto size = static_cast<uint32_t>(bytes);
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.note_progress();
  if (!shared_ok(block, thread, site, "writes", addr, size, size)) return;
  const uint32_t offset = addr - kSharedBase;
  if (WarpAccess* access =
          block.join(thread, Instruction::kStoreShared, site, static_cast<int>(bytes))) {
    access->shared[static_cast<size_t>(thread.lane)] = offset;
  }
  if (block.launch().run.hazards)
    block.shadow().store(stamp(thread, site), observer(thread), offset, size);
  std::memcpy(block.shared() + offset, value, bytes);
}

}  // namespace detail

}  // namespace emulator
