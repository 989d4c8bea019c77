// The kernel-facing functions: what one thread does when it calls them.

#include "common/simt/device.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

#include "common/simt/block.hpp"
#include "common/simt/matrix.hpp"

namespace emulator {

namespace {

using namespace fa::simt;

constexpr uint32_t kCopyBytes = 16;
constexpr uint32_t kRowBytes = 16;  // of an 8x8 matrix

Access stamp(const Thread& thread, const Site& site) {
  return {thread.index, thread.warp->epoch, step_of(thread), event_step(thread), site};
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

[[noreturn]] void fail_partial_warp(const Warp& warp) {
  throw std::runtime_error("a warp-wide instruction needs 32 lanes, but this warp has " +
                           std::to_string(warp.lanes) +
                           ": launch blocks of a multiple of 32 threads");
}

// The running thread, counted one step on, for an instruction of the whole warp.
Thread& warp_thread() {
  Thread& thread = current_thread();
  if (thread.warp->lanes != kWarpSize) fail_partial_warp(*thread.warp);
  ++step_of(thread);
  return thread;
}

Collective ldmatrix_kind(int count, bool trans) {
  if (count == 1) return trans ? Collective::kLdmatrixX1Trans : Collective::kLdmatrixX1;
  if (count == 2) return trans ? Collective::kLdmatrixX2Trans : Collective::kLdmatrixX2;
  return trans ? Collective::kLdmatrixX4Trans : Collective::kLdmatrixX4;
}

// Loads the matrices for the whole warp, when all lanes have brought their addresses.
[[gnu::noinline]] void execute_ldmatrix(const Thread& last, int count, bool trans,
                                        const Site& site) {
  Block& block = *last.block;
  Warp& warp = *last.warp;
  static constexpr unsigned char kNaN[kRowBytes] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                    255, 255, 255, 255, 255, 255, 255, 255};
  const bool hazards = block.launch().run.hazards;
  uint32_t record = 0;
  if (hazards) {
    Access access = stamp(last, site);
    access.thread = warp.first->index;
    record = block.shadow().begin_read(access, true);
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
      if (hazards) block.shadow().read(record, thread.index, offset, kRowBytes);
    }
    load_matrix(rows, trans, warp.registers, matrix);
  }
  uint32_t offsets[kWarpSize];
  for (int lane = 0; lane < kWarpSize; ++lane) offsets[lane] = warp.addresses[lane] - kSharedBase;
  block.traffic().ldmatrix(warp.index, site, offsets, count);
}

[[gnu::noinline]] void execute_mma(const Thread& last, const Site& site) {
  Warp& warp = *last.warp;
  multiply_accumulate(warp.a, warp.b, warp.c);
  last.block->traffic().collective(warp.index, EventKind::kMma, site);
}

[[gnu::noinline]] void execute_shuffle(const Thread& last, const Site& site) {
  Warp& warp = *last.warp;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    *warp.c[lane] = warp.values[(lane ^ warp.masks[lane]) & (kWarpSize - 1)];
  }
  last.block->traffic().collective(warp.index, EventKind::kShuffle, site);
}

[[gnu::noinline]] void execute_vote(const Thread& last, const Site& site) {
  Warp& warp = *last.warp;
  uint32_t any = 0;
  for (const uint32_t* vote : warp.registers) any |= *vote;
  for (uint32_t* vote : warp.registers) *vote = any;
  last.block->traffic().collective(warp.index, EventKind::kVote, site);
}

}  // namespace

int thread_index() { return thread_index_3d().x; }
int block_index() { return block_index_3d().x; }
Dim3 thread_index_3d() { return current_thread().place; }
Dim3 block_index_3d() { return current_thread().block->place(); }
Dim3 block_size() { return current_thread().block->launch().config.block; }
Dim3 grid_size() { return current_thread().block->launch().config.grid; }
uint32_t dynamic_smem() { return kSharedBase; }

void cp_async_16(uint32_t dst, const void* src, int source_bytes, int line, const char* file) {
  Thread& thread = current_thread();
  Block& block = *thread.block;
  const Site site{file, line};
  ++step_of(thread);
  if (source_bytes < 0 || source_bytes > static_cast<int>(kCopyBytes)) {
    block.report(HazardKind::kOutOfBounds, thread, site, reinterpret_cast<uint64_t>(src), [&] {
      return "asks cp.async for " + std::to_string(source_bytes) + " of 16 bytes";
    });
    return;
  }
  const auto bytes = static_cast<uint32_t>(source_bytes);
  if (!shared_ok(block, thread, site, "copies to", dst, kCopyBytes, kCopyBytes)) return;
  if (bytes > 0 && !global_ok(block, thread, site, "copies", src, bytes, kCopyBytes)) return;

  const uint32_t offset = dst - kSharedBase;
  if (WarpAccess* access = block.join(thread, EventKind::kCopyIssue, site, kCopyBytes)) {
    const auto lane = static_cast<size_t>(thread.lane);
    access->group = thread.open_group;
    access->sizes[lane] = static_cast<uint8_t>(bytes);
    access->shared[lane] = offset;
    access->global[lane] = reinterpret_cast<uint64_t>(src);
  }
  uint32_t record = 0;
  if (block.launch().run.hazards) {
    record = block.shadow().issue_copy(stamp(thread, site), offset, kCopyBytes,
                                       bytes > 0 ? src : nullptr);
  }
  std::memset(block.shared() + offset, 0xff, kCopyBytes);  // whoever reads it now reads NaN
  thread.copies.push_back({offset, src, bytes, record, thread.open_group});
}

void cp_async_commit(int line, const char* file) {
  Thread& thread = current_thread();
  ++step_of(thread);
  if (WarpAccess* access = thread.block->join(thread, EventKind::kCommit, {file, line}, 0)) {
    access->group = thread.open_group;
  }
  ++thread.open_group;
}

float shfl_xor(float value, int lane_mask, int line, const char* file) {
  Thread& thread = warp_thread();
  Warp& warp = *thread.warp;
  const Site site{file, line};
  float result = 0;
  warp.values[thread.lane] = value;
  warp.masks[thread.lane] = lane_mask;
  warp.c[thread.lane] = &result;
  if (thread.block->meet(thread, Collective::kShuffle, site)) execute_shuffle(thread, site);
  return result;
}

bool warp_any(bool condition, int line, const char* file) {
  Thread& thread = warp_thread();
  const Site site{file, line};
  uint32_t vote = condition;
  thread.warp->registers[thread.lane] = &vote;
  if (thread.block->meet(thread, Collective::kVote, site)) execute_vote(thread, site);
  return vote != 0;
}

void mma_m16n8k16(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4], int line,
                  const char* file) {
  Thread& thread = warp_thread();
  Warp& warp = *thread.warp;
  const Site site{file, line};
  warp.a[thread.lane] = a;
  warp.b[thread.lane] = b;
  warp.c[thread.lane] = c;
  if (thread.block->meet(thread, Collective::kMma, site)) execute_mma(thread, site);
}

void block_sync(int line, const char* file) { block_sync("", line, file); }

void block_sync(const char* label, int line, const char* file) {
  Thread& thread = current_thread();
  const SyncSite& sync = thread.block->sync_site("block_sync", {file, line}, label);
  if (sync.skipped_by(thread)) return;
  ++step_of(thread);
  thread.block->sync(thread, {file, line});
}

void warp_sync(int line, const char* file) { warp_sync("", line, file); }

void warp_sync(const char* label, int line, const char* file) {
  Thread& thread = current_thread();
  const Site site{file, line};
  const SyncSite& sync = thread.block->sync_site("warp_sync", site, label);
  if (sync.skipped_by(thread)) return;
  ++step_of(thread);
  if (thread.block->meet(thread, Collective::kWarpSync, site)) {
    ++thread.warp->epoch;
    thread.block->traffic().collective(thread.warp->index, EventKind::kWarpSync, site);
  }
}

namespace detail {

void cp_async_wait(int pending_groups, const char* label, int line, const char* file) {
  Thread& thread = current_thread();
  Block& block = *thread.block;
  const Site site{file, line};
  const SyncSite& sync = block.sync_site("cp_async_wait", site, label);
  if (sync.skipped_by(thread)) return;
  pending_groups += sync.more_groups;
  ++step_of(thread);
  const int land_before = thread.open_group - pending_groups;  // number of the first that may fly
  if (WarpAccess* access = block.join(thread, EventKind::kWait, site, 0)) {
    access->pending_groups = pending_groups;
    access->first_landed = thread.landed_groups;
    access->group = land_before - 1;
  }
  if (land_before > thread.landed_groups) thread.landed_groups = land_before;
  while (thread.landed < thread.copies.size() && thread.copies[thread.landed].group < land_before) {
    const Copy& copy = thread.copies[thread.landed++];
    unsigned char* target = block.shared() + copy.offset;
    if (copy.bytes > 0) std::memcpy(target, copy.source, copy.bytes);
    std::memset(target + copy.bytes, 0, kCopyBytes - copy.bytes);
    if (block.launch().run.hazards) block.shadow().land_copy(copy.record, stamp(thread, site));
  }
  if (thread.landed == thread.copies.size()) {
    thread.copies.clear();
    thread.landed = 0;
  }
}

void ldmatrix(uint32_t* r, int count, bool trans, uint32_t addr, int line, const char* file) {
  Thread& thread = warp_thread();
  Warp& warp = *thread.warp;
  const Site site{file, line};
  warp.registers[thread.lane] = r;
  warp.addresses[thread.lane] = addr;
  if (thread.block->meet(thread, ldmatrix_kind(count, trans), site)) {
    execute_ldmatrix(thread, count, trans, site);
  }
}

void load_global(void* value, const void* p, size_t bytes, int line, const char* file) {
  Thread& thread = current_thread();
  Block& block = *thread.block;
  const Site site{file, line};
  ++step_of(thread);
  if (!global_ok(block, thread, site, "reads", p, bytes, bytes)) {
    std::memset(value, 0xff, bytes);
    return;
  }
  if (WarpAccess* access =
          block.join(thread, EventKind::kLoadGlobal, site, static_cast<int>(bytes))) {
    access->sizes[static_cast<size_t>(thread.lane)] = static_cast<uint8_t>(bytes);
    access->global[static_cast<size_t>(thread.lane)] = reinterpret_cast<uint64_t>(p);
  }
  std::memcpy(value, p, bytes);
}

void store_global(void* p, const void* value, size_t bytes, int line, const char* file) {
  Thread& thread = current_thread();
  Block& block = *thread.block;
  const Site site{file, line};
  ++step_of(thread);
  if (!global_ok(block, thread, site, "writes", p, bytes, bytes)) return;
  if (WarpAccess* access =
          block.join(thread, EventKind::kStoreGlobal, site, static_cast<int>(bytes))) {
    access->sizes[static_cast<size_t>(thread.lane)] = static_cast<uint8_t>(bytes);
    access->global[static_cast<size_t>(thread.lane)] = reinterpret_cast<uint64_t>(p);
  }
  std::memcpy(p, value, bytes);
}

void load_shared(void* value, uint32_t addr, size_t bytes, int line, const char* file) {
  Thread& thread = current_thread();
  Block& block = *thread.block;
  const Site site{file, line};
  const auto size = static_cast<uint32_t>(bytes);
  ++step_of(thread);
  if (!shared_ok(block, thread, site, "reads", addr, size, size)) {
    std::memset(value, 0xff, bytes);
    return;
  }
  const uint32_t offset = addr - kSharedBase;
  if (WarpAccess* access =
          block.join(thread, EventKind::kLoadShared, site, static_cast<int>(bytes))) {
    access->shared[static_cast<size_t>(thread.lane)] = offset;
  }
  if (block.launch().run.hazards) {
    const uint32_t record = block.shadow().begin_read(stamp(thread, site), false);
    block.shadow().read(record, thread.index, offset, size);
  }
  std::memcpy(value, block.shared() + offset, bytes);
}

void store_shared(uint32_t addr, const void* value, size_t bytes, int line, const char* file) {
  Thread& thread = current_thread();
  Block& block = *thread.block;
  const Site site{file, line};
  const auto size = static_cast<uint32_t>(bytes);
  ++step_of(thread);
  if (!shared_ok(block, thread, site, "writes", addr, size, size)) return;
  const uint32_t offset = addr - kSharedBase;
  if (WarpAccess* access =
          block.join(thread, EventKind::kStoreShared, site, static_cast<int>(bytes))) {
    access->shared[static_cast<size_t>(thread.lane)] = offset;
  }
  if (block.launch().run.hazards) block.shadow().store(stamp(thread, site), offset, size);
  std::memcpy(block.shared() + offset, value, bytes);
}

}  // namespace detail

}  // namespace emulator
