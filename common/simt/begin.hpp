#pragma once
// The first steps of each instruction, which find the running thread, count its step, check its
// addresses.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "common/simt/block.hpp"

namespace fa::simt {

inline Access stamp(const Thread& thread, const Site& site) {
  return {thread.index, thread.warp->time, step_of(thread), 0, event_step(thread), site};
}

inline std::string bytes_text(const char* verb, size_t bytes) {
  return std::string(verb) + " " + std::to_string(bytes) + " bytes at ";
}

// Returns the block of the thread's cluster whose shared memory the address means, and takes its
// rank off the address (global_log.hpp); nullptr: the cluster has no such block.
inline Block* block_of(const Thread& thread, uint32_t& address) {
  const uint32_t rank = address >> kRankShift;
  address &= kOwnAddress;
  return rank == 0 ? thread.block : thread.block->in_cluster(static_cast<int>(rank) - 1);
}

// Returns true if bytes [addr, addr + bytes) are in the block's shared memory and addr is a
// multiple of `alignment`, a power of two. Otherwise reports a hazard and returns false.
inline bool shared_ok(Block& block, const Thread& thread, const Site& site, const char* verb,
                      uint32_t addr, uint32_t bytes, uint32_t alignment) {
  const uint32_t size = block.launch().smem_bytes;
  const int64_t offset = static_cast<int64_t>(addr) - kSharedBase;
  if (offset >= 0 && offset + bytes <= size && (addr & (alignment - 1)) == 0) [[likely]]
    return true;
  if (offset < 0 || offset + bytes > size) {
    block.report(HazardKind::kOutOfBounds, thread, site, static_cast<uint64_t>(offset), [&] {
      return bytes_text(verb, bytes) + "byte " + std::to_string(offset) +
             " of dynamic shared memory, which has " + std::to_string(size) + " bytes";
    });
    return false;
  }
  block.report(HazardKind::kMisaligned, thread, site, static_cast<uint64_t>(offset), [&] {
    return bytes_text(verb, bytes) + "byte " + std::to_string(offset) +
           " of shared memory, which is not a multiple of " + std::to_string(alignment);
  });
  return false;
}

// The same for registered buffers in global memory.
inline bool global_ok(Block& block, const Thread& thread, const Site& site, const char* verb,
                      const void* p, size_t bytes, size_t alignment) {
  const auto address = reinterpret_cast<uint64_t>(p);
  if (!block.global_ok(address, bytes, site)) {
    block.report(HazardKind::kOutOfBounds, thread, site, address, [&] {
      return bytes_text(verb, bytes) + describe_address(p) + ", outside every registered buffer";
    });
    return false;
  }
  if ((address & (alignment - 1)) != 0) {
    block.report(HazardKind::kMisaligned, thread, site, address, [&] {
      return bytes_text(verb, bytes) + describe_address(p) +
             ", whose address is not a multiple of " + std::to_string(alignment);
    });
    return false;
  }
  return true;
}

// memcpy, without a call for the sizes of accesses.
inline void copy_small(void* to, const void* from, size_t bytes) {
  switch (bytes) {
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 16:
      std::memcpy(to, from, 16);
      break;
    default:
      std::memcpy(to, from, bytes);
  }
}

// Returns the first 8 bytes of a value, or all.
inline uint64_t first_bits(const void* value, size_t bytes) {
  if (bytes == 4) {  // the usual case, without a store and a wider load
    uint32_t word;
    std::memcpy(&word, value, 4);
    return word;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, value, std::min(bytes, sizeof bits));
  return bits;
}

// Copies global memory. If the kernel has a race, blocks on two CPU threads race here. The emulator
// reports such races itself, so they are hidden from the thread sanitizer, which is to find only
// the emulator's own.
inline void copy_global(void* to, const void* from, size_t bytes) {
#ifdef FA_SIMT_TSAN
  for (size_t i = 0; i < bytes; ++i) {
    const char byte = __atomic_load_n(static_cast<const char*>(from) + i, __ATOMIC_RELAXED);
    __atomic_store_n(static_cast<char*>(to) + i, byte, __ATOMIC_RELAXED);
  }
#else
  copy_small(to, from, bytes);
#endif
}

// Returns the running thread and counts its next instruction.
inline Thread& begin(const Site& site) {
  Thread& thread = current_thread();
  thread.block->begin_instruction(thread, site);
  return thread;
}

[[noreturn]] inline void fail_partial_warp(const Warp& warp) {
  throw std::runtime_error("a warp-wide instruction needs 32 lanes, but this warp has " +
                           std::to_string(warp.lanes) +
                           ": launch blocks of a multiple of 32 threads");
}

// Like begin(), for an instruction of the whole warp.
inline Thread& begin_warp_wide(const Site& site) {
  Thread& thread = begin(site);
  if (thread.warp->lanes != kWarpSize) fail_partial_warp(*thread.warp);
  return thread;
}

// True if this run leaves out the barrier or wait that the running thread has reached.
inline bool skips(Instruction instruction, const Site& site, const char* label) {
  Thread& thread = current_thread();
  return thread.block->sync_site(instruction, site, label).skipped_by(thread);
}

}  // namespace fa::simt
