// The functions of hopper.hpp that kernels call.

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "common/simt/begin.hpp"
#include "common/simt/hopper.hpp"
#include "common/simt/lanes.hpp"

namespace emulator {

namespace {

using namespace fa::simt;

constexpr uint32_t kMbarrierBytes = 8;
constexpr uint32_t kBoxAlignment = 128;
constexpr int64_t kChunkBytes = 16;

// Begins a counted instruction and returns the running thread, or nullptr if this run leaves the
// instruction out.
Thread* begin_counted(Instruction instruction, const Site& site, const char* label = "",
                      uint32_t expected_bytes = 0) {
  if (skips(instruction, site, label)) return nullptr;
  Thread& thread = begin(site);
  thread.block->note_progress();
  if (WarpAccess* access = thread.block->join(thread, instruction, site, 0)) {
    access->box_bytes += expected_bytes;
  }
  return &thread;
}

// Returns the offset of an mbarrier. Ends the block if the address cannot hold one.
uint32_t mbarrier_at(Thread& thread, uint32_t address, const Site& site) {
  Block& block = *thread.block;
  const int64_t offset = int64_t{address} - kSharedBase;
  if (offset < 0 || offset + kMbarrierBytes > block.launch().smem_bytes) {
    block.give_up(HazardKind::kOutOfBounds, thread, site, [&] {
      return "uses an mbarrier at byte " + std::to_string(offset) +
             " of dynamic shared memory, which has " + std::to_string(block.launch().smem_bytes) +
             " bytes";
    });
  }
  if (address % kMbarrierBytes != 0) {
    block.give_up(HazardKind::kMisaligned, thread, site, [&] {
      return "uses an mbarrier at byte " + std::to_string(offset) +
             " of shared memory, which is not a multiple of 8";
    });
  }
  return static_cast<uint32_t>(offset);
}

// Returns the block of the cluster whose mbarrier the address means, and takes the rank off.
Block& mbarrier_owner(Thread& thread, uint32_t& mbarrier, const Site& site) {
  Block* const owner = block_of(thread, mbarrier);
  if (owner != nullptr) return *owner;
  thread.block->give_up(HazardKind::kOutOfBounds, thread, site, [] {
    return "uses an mbarrier of a block that its cluster does not have";
  });
}

BulkStores& stores_of(Thread& thread) {
  if (thread.stores == nullptr) {
    thread.stores = std::make_unique<BulkStores>();
    thread.stores->engine = thread.block->new_engine();
    thread.stores->writing_engine = thread.block->new_engine();
  }
  return *thread.stores;
}

// Reports an ordinary write of this block to bytes of global memory that the async access of
// `thread` uses, if no proxy fence is between the two.
void check_fence(const Thread& thread, Instruction instruction, const Site& site, const void* p,
                 size_t bytes) {
  Shadow& shadow = thread.block->shadow();
  if (!thread.block->launch().run.hazards || !shadow.has_global_writes()) return;
  Access access = stamp(thread, site);
  access.engine = 0;  // any number, because the report names the copy and not the thread
  access.engine_work = instruction;
  shadow.check_global_fence(access, observer(thread), reinterpret_cast<uint64_t>(p), bytes);
}

// Starts the thread's read of `bytes` of shared memory for a bulk store.
void begin_store(Thread& thread, TensorCopy& copy, Instruction instruction, uint32_t bytes,
                 const Site& site) {
  Block& block = *thread.block;
  BulkStores& stores = stores_of(thread);
  copy.phase = stores.open_group;
  if (block.launch().run.hazards) {
    Access access = stamp(thread, site);
    access.engine = static_cast<int16_t>(stores.engine);
    access.engine_time = stores.next_time();
    access.engine_work = instruction;
    copy.record = block.shadow().begin_async_read(access);
    const Observer issuer = observer(thread);
    block.shadow().async_read(copy.record, {&issuer, 1}, copy.offset, bytes);
  }
  stores.copies.push_back(copy);
}

// Ends the block if cp.async.bulk cannot copy this number of bytes.
void check_number(uint32_t bytes, const Site& site) {
  Thread& thread = current_thread();
  if (bytes > 0 && bytes % kChunkBytes == 0) return;
  thread.block->give_up(HazardKind::kMisaligned, thread, site, [&] {
    return "copies " + std::to_string(bytes) +
           " bytes: the number must be a positive multiple of 16";
  });
}

// Returns a box of one dimension: `bytes` in a row.
TensorMap row_of(const void* data, uint32_t bytes, const Site& site) {
  check_number(bytes, site);
  TensorMap map;
  map.box.data = data;
  map.box.element_bytes = map.box.rank = 1;
  map.box.sizes[0] = bytes;
  map.box.strides[0] = 1;
  map.box.box[0] = static_cast<int>(bytes);
  return map;
}

// Prepares a copy between `address` in shared memory, a multiple of `alignment`, and the box at
// coordinates `at`. Returns false after reporting an impossible copy.
bool begin_copy(Thread& thread, TensorCopy& copy, Instruction instruction, const TensorMap& map,
                std::initializer_list<int> at, uint32_t address, uint32_t alignment, GlobalUse use,
                const Site& site) {
  Block& block = *thread.block;
  copy.map = map.box;
  copy.site = site;
  std::copy(at.begin(), at.end(), copy.at);
  const char* const verb = use == GlobalUse::kRead ? "copies a box to" : "copies a box from";
  if (static_cast<int>(at.size()) != map.box.rank) {
    throw std::runtime_error(std::string(info(instruction).name) + "_" + std::to_string(at.size()) +
                             "d with a tensor map of " + std::to_string(map.box.rank) +
                             " dimensions");
  }
  const int64_t first_byte = copy.at[0] * map.box.element_bytes;
  if (first_byte % kChunkBytes != 0) {
    block.give_up(HazardKind::kMisaligned, thread, site, [&] {
      return std::string(verb) + " shared memory whose rows start at byte " +
             std::to_string(first_byte) +
             " of the tensor's rows, which is not a multiple of 16: an illegal instruction on a "
             "GPU";
    });
  }
  if (use == GlobalUse::kWrite && *std::min_element(at.begin(), at.end()) < 0) {
    block.give_up(HazardKind::kOutOfBounds, thread, site, [&] {
      return std::string(verb) +
             " shared memory to a negative coordinate: an illegal instruction on a GPU, although a "
             "load gives zeros there";
    });
  }
  const uint32_t bytes = map.box.box_bytes(), span = swizzle_span(map.box.swizzle);
  if (!shared_ok(block, thread, site, verb, address, (bytes + span - 1) / span * span, alignment)) {
    return false;
  }
  copy.offset = address - kSharedBase;
  const char *first = nullptr, *end = nullptr;
  uint32_t inside = 0;
  for_each_row(copy, use, [&](const char* row, size_t row_bytes) {
    if (first == nullptr) first = row;
    end = row + row_bytes;
    inside += static_cast<uint32_t>(row_bytes);
    if (use == GlobalUse::kWrite) {  // a load is noted with its mbarrier
      const BulkStores& stores = stores_of(thread);
      block.note_async_global(thread, use, site, stores.writing_engine, stores.next_time(), row,
                              row_bytes);
    }
  });
  if (first != nullptr && !global_ok(block, thread, site, "copies", first,
                                     static_cast<size_t>(end - first), kChunkBytes)) {
    return false;
  }
  if (block.launch().run.hazards && block.shadow().has_global_writes()) {
    for_each_row(copy, use, [&](const char* row, size_t row_bytes) {
      check_fence(thread, instruction, site, row, row_bytes);
    });
  }
  if (WarpAccess* access = block.join(thread, instruction, site, 0)) {
    access->box_bytes += bytes;
    access->outside_bytes += bytes - std::min(bytes, inside);
    access->shared[static_cast<size_t>(thread.lane)] = copy.offset;
    access->global[static_cast<size_t>(thread.lane)] = reinterpret_cast<uint64_t>(first);
    if (block.speaks_for(thread)) access->coordinates = at;
  }
  return true;
}

// Stores the matrices of the whole warp after all lanes have passed addresses and registers.
void execute_stmatrix(const Thread& last, const Site& site) {
  Block& block = *last.block;
  Warp& warp = *last.warp;
  block.note_progress();
  uint32_t offsets[kWarpSize];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const Thread& thread = warp.first[lane];
    const uint32_t addr = warp.addresses[lane];
    offsets[lane] = addr - kSharedBase;
    if (!shared_ok(block, thread, site, "writes", addr, kChunkBytes, kChunkBytes)) continue;
    if (block.launch().run.hazards)
      block.shadow().store(stamp(thread, site), observer(thread), offsets[lane], kChunkBytes);
    for (int pair = 0; pair < 4; ++pair)
      std::memcpy(block.shared() + offsets[lane] + pair * 4, &warp.a[lane % 8 * 4 + pair][lane / 8],
                  4);
  }
  block.traffic().matrices(warp.index, Instruction::kStmatrixX4, site, offsets, 4);
}

}  // namespace

void mbarrier_init(uint32_t mbarrier, int arrivals, int line, const char* file) {
  const Site site{file, line};
  if (Thread* thread = begin_counted(Instruction::kMbarrierInit, site)) {
    if (arrivals < 1 || arrivals >= 1 << 20) {
      throw std::runtime_error("an mbarrier for " + std::to_string(arrivals) +
                               " arrivals: 1 to 1048575 are possible");
    }
    const uint32_t offset = mbarrier_at(*thread, mbarrier, site);
    thread->block->mbarriers().init(*thread, offset, arrivals, site);
  }
}

void mbarrier_inval(uint32_t mbarrier, int line, const char* file) {
  const Site site{file, line};
  if (Thread* thread = begin_counted(Instruction::kMbarrierInval, site)) {
    thread->block->mbarriers().invalidate(*thread, mbarrier_at(*thread, mbarrier, site), site);
  }
}

void fence_mbarrier_init(int line, const char* file) {
  const Site site{file, line};
  if (Thread* thread = begin_counted(Instruction::kFenceMbarrierInit, site)) {
    thread->block->mbarriers().fence_init(*thread);
  }
}

void mbarrier_arrive(uint32_t mbarrier, int line, const char* file) {
  const Site site{file, line};
  if (Thread* thread = begin_counted(Instruction::kMbarrierArrive, site)) {
    Block& owner = mbarrier_owner(*thread, mbarrier, site);
    const uint32_t offset = mbarrier_at(*thread, mbarrier, site);
    owner.mbarriers().arrive(*thread, offset, 0, true, site);
  }
}

void mbarrier_expect_tx(uint32_t mbarrier, uint32_t bytes, int line, const char* file) {
  const Site site{file, line};
  if (Thread* thread = begin_counted(Instruction::kMbarrierExpectTx, site, "", bytes)) {
    Block& owner = mbarrier_owner(*thread, mbarrier, site);
    const uint32_t offset = mbarrier_at(*thread, mbarrier, site);
    owner.mbarriers().arrive(*thread, offset, bytes, false, site);
  }
}

void mbarrier_arrive_expect_tx(uint32_t mbarrier, uint32_t bytes, int line, const char* file) {
  const Site site{file, line};
  if (Thread* thread = begin_counted(Instruction::kMbarrierArriveExpectTx, site, "", bytes)) {
    Block& owner = mbarrier_owner(*thread, mbarrier, site);
    const uint32_t offset = mbarrier_at(*thread, mbarrier, site);
    owner.mbarriers().arrive(*thread, offset, bytes, true, site);
  }
}

bool mbarrier_try_wait(uint32_t mbarrier, int parity, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kMbarrierTryWait, site, "")) return true;
  Thread& thread = begin(site);
  Block& block = *thread.block;
  const uint32_t offset = mbarrier_at(thread, mbarrier, site);
  block.join_load(thread, Instruction::kMbarrierTryWait, site, 0, offset);
  const bool complete = block.mbarriers().test(thread, offset, parity, site);
  if (complete) {
    block.note_progress();
  } else {
    block.note_load(thread, offset, 0, site);
  }
  return complete;
}

void mbarrier_wait(uint32_t mbarrier, int parity, int line, const char* file) {
  mbarrier_wait(mbarrier, parity, "", line, file);
}
void mbarrier_wait(uint32_t mbarrier, int parity, const char* label, int line, const char* file) {
  const Site site{file, line};
  if (Thread* thread = begin_counted(Instruction::kMbarrierWait, site, label)) {
    const uint32_t offset = mbarrier_at(*thread, mbarrier, site);
    thread->block->mbarriers().wait(*thread, offset, parity, site);
  }
}

void fence_proxy_async(int line, const char* file) {
  const Site site{file, line};
  if (Thread* thread = begin_counted(Instruction::kFenceProxyAsync, site)) {
    if (thread->block->launch().run.hazards) {
      thread->block->shadow().fence_proxy(thread->index, thread->warp->time, observer(*thread));
    }
  }
}

void fence_proxy_async_global(int line, const char* file) {
  const Site site{file, line};
  if (Thread* thread = begin_counted(Instruction::kFenceProxyAsyncGlobal, site)) {
    if (thread->block->launch().run.hazards) {
      thread->block->shadow().fence_global_proxy(thread->index, thread->warp->time,
                                                 observer(*thread));
    }
  }
}

void tma_store_commit(int line, const char* file) {
  const Site site{file, line};
  Thread* thread = begin_counted(Instruction::kTmaStoreCommit, site);
  if (thread == nullptr || thread->stores == nullptr) return;
  BulkStores& stores = *thread->stores;
  ++stores.open_group;
  stores.issued.push_back(stores.next_time() - 1);
}

void bulk_reduce_add(float* dst, uint32_t src, uint32_t bytes, int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.note_progress();
  if (bytes == 0 || bytes % kChunkBytes != 0) {
    throw std::runtime_error("bulk_reduce_add of " + std::to_string(bytes) +
                             " bytes: the number must be a positive multiple of 16");
  }
  if (!shared_ok(block, thread, site, "adds", src, bytes, kChunkBytes)) return;
  if (!global_ok(block, thread, site, "adds to", dst, bytes, kChunkBytes)) return;
  const BulkStores& stores = stores_of(thread);
  block.note_async_global(thread, GlobalUse::kAtomic, site, stores.writing_engine,
                          stores.next_time(), dst, bytes);
  check_fence(thread, Instruction::kBulkReduceAdd, site, dst, bytes);
  TensorCopy copy;
  copy.map.data = dst;
  copy.map.sizes[0] = bytes / int64_t{sizeof *dst};
  copy.offset = src - kSharedBase;
  copy.site = site;
  copy.adds = true;
  if (WarpAccess* access = block.join(thread, Instruction::kBulkReduceAdd, site, 0)) {
    access->box_bytes += bytes;
    access->shared[static_cast<size_t>(thread.lane)] = copy.offset;
    access->global[static_cast<size_t>(thread.lane)] = reinterpret_cast<uint64_t>(dst);
  }
  begin_store(thread, copy, Instruction::kBulkReduceAdd, bytes, site);
}

void stmatrix_x4(uint32_t addr, const uint32_t (&r)[4], int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  thread.warp->a[thread.lane] = r;
  thread.warp->addresses[thread.lane] = addr;
  if (thread.block->meet(thread, Instruction::kStmatrixX4, site)) execute_stmatrix(thread, site);
}

bool elect_one(int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  if (thread.block->meet(thread, Instruction::kElectOne, site)) {
    thread.block->traffic().collective(thread.warp->index, Instruction::kElectOne, site);
  }
  return thread.lane == 0;
}

int cluster_rank() { return current_thread().block->rank(); }

int cluster_size() {
  const Dim3& size = current_thread().block->launch().config.cluster;
  return size.x * size.y * size.z;
}

void cluster_sync(int line, const char* file) { cluster_sync("", line, file); }

void cluster_sync(const char* label, int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kClusterSync, site, label)) return;
  Thread& thread = begin(site);
  thread.block->sync_cluster(thread, site);
}

void wgmma_fence(int line, const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kWgmmaFence, site, "")) return;
  Thread& thread = begin_warp_wide(site);
  Block& block = *thread.block;
  if (block.meet(thread, Instruction::kWgmmaFence, site)) {
    block.warpgroup(thread, Instruction::kWgmmaFence).fence(*thread.warp);
    block.traffic().collective(thread.warp->index, Instruction::kWgmmaFence, site);
  }
}

void wgmma_commit(int line, const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  Block& block = *thread.block;
  if (block.meet(thread, Instruction::kWgmmaCommit, site)) {
    block.warpgroup(thread, Instruction::kWgmmaCommit).commit(*thread.warp);
    block.traffic().collective(thread.warp->index, Instruction::kWgmmaCommit, site);
  }
}

static void start_load(uint32_t dst, const TensorMap& map, std::initializer_list<int> at,
                       uint32_t mbarrier, uint32_t ranks, uint32_t alignment, const Site& site) {
  Thread& thread = begin(site);
  thread.block->note_progress();
  if (ranks == 0) ranks = 1u << lanes::cluster_rank_of(mbarrier);
  dst &= kOwnAddress;
  const uint32_t offset = mbarrier_at(thread, mbarrier & kOwnAddress, site);
  TensorCopy copy;
  if (!begin_copy(thread, copy, Instruction::kTmaLoad, map, at, dst, alignment, GlobalUse::kRead,
                  site)) {
    return;
  }
  for (int rank = 0; ranks >> rank != 0; ++rank) {
    if ((ranks >> rank & 1) == 0) continue;
    uint32_t there = lanes::cluster_address(mbarrier, rank);
    mbarrier_owner(thread, there, site).mbarriers().load(thread, offset, copy, site);
  }
}

void lanes::tma_load(uint32_t dst, const TensorMap& map, std::initializer_list<int> at,
                     uint32_t mbarrier, uint32_t ranks, const Site& site) {
  start_load(dst, map, at, mbarrier, ranks, kBoxAlignment, site);
}

void lanes::bulk_load(uint32_t to, const void* from, uint32_t bytes, uint32_t mbarrier,
                      uint32_t ranks, const Site& site) {
  start_load(to, row_of(from, bytes, site), {0}, mbarrier, ranks, kChunkBytes, site);
}

void lanes::bulk_copy(uint32_t to, uint32_t from, uint32_t bytes, uint32_t mbarrier,
                      const Site& site) {
  Thread& thread = begin(site);
  Block& block = *thread.block;
  block.note_progress();
  const int rank = cluster_rank_of(mbarrier), rank_of_bytes = cluster_rank_of(to);
  if (rank != rank_of_bytes) {
    block.give_up(HazardKind::kOutOfBounds, thread, site, [&] {
      return "copies to block " + std::to_string(rank_of_bytes) +
             " of the cluster and reports the bytes to an mbarrier of block " +
             std::to_string(rank) + ": both must be in the same block";
    });
  }
  check_number(bytes, site);
  Block& owner = mbarrier_owner(thread, mbarrier, site);
  const uint32_t offset = mbarrier_at(thread, mbarrier, site);
  to &= kOwnAddress;
  if (!shared_ok(block, thread, site, "copies from", from, bytes, kChunkBytes) ||
      !shared_ok(block, thread, site, "copies to", to, bytes, kChunkBytes)) {
    return;
  }
  TensorCopy copy;
  copy.map.element_bytes = copy.map.rank = 1;
  copy.map.box[0] = static_cast<int>(bytes);
  copy.offset = to - kSharedBase;
  copy.source = &block;
  copy.from = from - kSharedBase;
  copy.site = site;
  if (WarpAccess* access = block.join(thread, Instruction::kBulkCopy, site, 0)) {
    access->box_bytes += bytes;
    access->shared[static_cast<size_t>(thread.lane)] = copy.offset;
  }
  owner.mbarriers().load(thread, offset, copy, site);
}

namespace detail {

void check_landed(uint32_t bits, int line, const char* file) {
  if (!is_poison(bits)) return;
  Thread& thread = current_thread();
  const Site site{file, line};
  if (thread.warp->index / kWarpgroupWarps < thread.block->launch().threads / kWarpgroupSize) {
    thread.block->warpgroup(thread, Instruction::kWgmma).note_early_read(thread, bits, site);
  }
}

void tma_load(uint32_t dst, const TensorMap& map, std::initializer_list<int> at, uint32_t mbarrier,
              int line, const char* file) {
  lanes::tma_load(dst, map, at, mbarrier, 0, {file, line});
}

static void start_store(const TensorMap& map, std::initializer_list<int> at, uint32_t src,
                        uint32_t alignment, const Site& site) {
  Thread& thread = begin(site);
  thread.block->note_progress();
  TensorCopy copy;
  if (!begin_copy(thread, copy, Instruction::kTmaStore, map, at, src, alignment, GlobalUse::kWrite,
                  site)) {
    return;
  }
  begin_store(thread, copy, Instruction::kTmaStore, map.box.box_bytes(), site);
}

void tma_store(const TensorMap& map, std::initializer_list<int> at, uint32_t src, int line,
               const char* file) {
  start_store(map, at, src, kBoxAlignment, {file, line});
}

void tma_store_wait(int pending_groups, bool read, int line, const char* file) {
  const Site site{file, line};
  const Instruction instruction =
      read ? Instruction::kTmaStoreWaitRead : Instruction::kTmaStoreWait;
  Thread* const thread = begin_counted(instruction, site);
  if (thread == nullptr || thread->stores == nullptr) return;
  Block& block = *thread->block;
  BulkStores& stores = *thread->stores;
  pending_groups += block.sync_site(instruction, site, "").more_groups;
  while (!stores.copies.empty() &&
         stores.copies.front().phase < stores.open_group - pending_groups) {
    store_box(stores.copies.front(), block.shared());
    if (block.launch().run.hazards) block.shadow().end_async_read();
    stores.copies.pop_front();
    ++stores.done;
  }
  if (thread->clock == nullptr) {
    thread->clock = std::make_unique<Clock>();
    thread->clock->foreign = thread->warp->clock.foreign;
  }
  thread->clock->learn_warp(stores.engine, stores.done + 1);
  const int complete = std::min(stores.open_group - pending_groups, stores.open_group);  // groups
  if (!read && complete > 0) {
    const uint32_t last = stores.issued[static_cast<size_t>(complete) - 1];
    thread->clock->learn_warp(stores.writing_engine, last + 1);
  }
}

void wgmma(float* d, int n, uint32_t* a, uint64_t descriptor_a, uint64_t descriptor_b,
           bool accumulate, bool mn_major_a, bool mn_major_b, WgmmaType type, int line,
           const char* file) {
  const Site site{file, line};
  Thread& thread = begin_warp_wide(site);
  Block& block = *thread.block;
  WgmmaCall call{d, a, descriptor_a, descriptor_b, n, accumulate, mn_major_a, mn_major_b, type};
  thread.warp->wgmma[thread.lane] = &call;
  if (block.meet_warpgroup(thread, Instruction::kWgmma, site)) {
    block.warpgroup(thread, Instruction::kWgmma).issue(thread, site);
  }
}

void wgmma_wait(int pending_groups, std::initializer_list<const float*> registers, int line,
                const char* file) {
  const Site site{file, line};
  if (skips(Instruction::kWgmmaWait, site, "")) return;
  Thread& thread = begin_warp_wide(site);
  Block& block = *thread.block;
  if (block.meet(thread, Instruction::kWgmmaWait, site)) {
    pending_groups += block.sync_site(Instruction::kWgmmaWait, site, "").more_groups;
    block.warpgroup(thread, Instruction::kWgmmaWait).wait(thread, pending_groups, registers, site);
    block.traffic().wgmma_wait(thread.warp->index, site, pending_groups);
  }
}

void setmaxnreg(bool more, int registers, int line, const char* file) {
  const Site site{file, line};
  const Instruction instruction = more ? Instruction::kSetmaxnregInc : Instruction::kSetmaxnregDec;
  if (skips(instruction, site, "")) return;
  Thread& thread = begin_warp_wide(site);
  thread.block->set_registers(thread, instruction, registers, site);
}

}  // namespace detail

void lanes::bulk_store(void* to, uint32_t from, uint32_t bytes, const Site& site) {
  detail::start_store(row_of(to, bytes, site), {0}, from, kChunkBytes, site);
}

}  // namespace emulator
