#pragma once
// The SIMT emulator, seen from the host: what to run, what it measured, what it found.
//
//   fa::simt::Buffer<fa::bf16> K(batch * heads * len_kv * dim, "K");     // "global memory"
//   fa::simt::Report report = fa::simt::run(config, [&] {
//     emulator::launch(kernel, grid, block, smem_bytes, K.data(), ...);  // any number of launches
//   });
//   report.counters.mma_instructions, report.hazards[0].text, report.events
//
// Kernels include common/simt/device.hpp (through common/backend.hpp). How it works: README.md.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/simt/buffer.hpp"

namespace fa::simt {

/// What a run does besides computing the result.
struct Config {
  uint64_t schedule_seed = 0;  // 0: natural order; any other: another order of warps and lanes
  bool hazards = true;         // look for races and bad accesses
  bool counters = true;        // count instructions, wavefronts, sectors
  bool events = false;         // log what each warp of the first event_blocks blocks does
  int event_blocks = 1;
  int threads = 0;  // CPU threads that run blocks; 0: one for each core
};

/// What Nsight Compute would count, summed over all warps of all launches of a run.
/// Instructions are per warp. A wavefront is one pass of 32 banks x 4 bytes; a sector is 32 bytes.
/// "Ideal" is the least number that could have moved the same bytes.
struct Counters {
  int64_t ldmatrix_instructions = 0;
  int64_t mma_instructions = 0;
  int64_t cp_async_instructions = 0;
  int64_t shuffle_instructions = 0;
  int64_t barriers = 0;
  int64_t shared_load_wavefronts = 0;  // ldmatrix and load_shared
  int64_t shared_load_wavefronts_ideal = 0;
  int64_t shared_store_wavefronts = 0;  // cp.async and store_shared
  int64_t shared_store_wavefronts_ideal = 0;
  int64_t global_load_sectors = 0;  // cp.async and load_global
  int64_t global_load_sectors_ideal = 0;
  int64_t global_store_sectors = 0;
  int64_t global_store_sectors_ideal = 0;
  int64_t shared_bytes_per_block = 0;  // the largest of the launches

  /// Bit i is set when kCounterFields[i] holds a part whose rule no hardware has confirmed yet.
  uint32_t estimates = 0;

  Counters& operator+=(const Counters& other);
};

/// Name (the key of --json) and place of each counter, in the order in which they are printed.
struct CounterField {
  const char* name;
  int64_t Counters::*value;
};
inline constexpr CounterField kCounterFields[] = {
    {"ldmatrix_instructions", &Counters::ldmatrix_instructions},
    {"mma_instructions", &Counters::mma_instructions},
    {"cp_async_instructions", &Counters::cp_async_instructions},
    {"shuffle_instructions", &Counters::shuffle_instructions},
    {"barriers", &Counters::barriers},
    {"shared_load_wavefronts", &Counters::shared_load_wavefronts},
    {"shared_load_wavefronts_ideal", &Counters::shared_load_wavefronts_ideal},
    {"shared_store_wavefronts", &Counters::shared_store_wavefronts},
    {"shared_store_wavefronts_ideal", &Counters::shared_store_wavefronts_ideal},
    {"global_load_sectors", &Counters::global_load_sectors},
    {"global_load_sectors_ideal", &Counters::global_load_sectors_ideal},
    {"global_store_sectors", &Counters::global_store_sectors},
    {"global_store_sectors_ideal", &Counters::global_store_sectors_ideal},
    {"shared_bytes_per_block", &Counters::shared_bytes_per_block},
};

/// True when the counter of that name holds an estimate (see Counters::estimates).
bool is_estimate(const Counters& counters, const std::string& name);

enum class HazardKind {
  kReadBeforeWait,      // bytes of a cp.async that its thread has not waited for
  kReadBeforeBarrier,   // another thread's bytes, no barrier since it stored or waited for them
  kOverwriteWhileRead,  // bytes that another thread reads, no barrier since
  kWriteWrite,          // two writes that nothing orders
  kUninitializedRead,   // shared memory that nobody wrote
  kOutOfBounds,         // outside shared memory or every registered buffer
  kMisaligned,          // an address that the instruction does not accept
  kBarrierDivergence,   // a barrier or warp instruction that not every thread reaches
};
const char* hazard_name(HazardKind kind);  // "read_before_wait", ...

/// A place in a kernel's source.
struct Site {
  const char* file = "";
  int line = 0;
};

/// One defect: all accesses of one kind at one source line. The example is the first found, in the
/// block with the lowest number.
struct Hazard {
  HazardKind kind{};
  Site where;         // the access that is at fault
  Site other;         // what it collides with; line 0: nothing
  int64_t count = 0;  // accesses (a row of an ldmatrix, one thread's load, store or cp.async)
  int block = 0;
  int thread = -1;        // of `where`, in its block
  int other_thread = -1;  // of `other`; -1: none, or any
  uint64_t address = 0;   // shared: bytes from the start of dynamic memory; global: a pointer
  std::string text;       // the whole finding as a sentence
};

enum class EventKind {
  kCopyIssue,
  kCommit,
  kWait,
  kLand,
  kBarrier,
  kWarpSync,
  kLdmatrix,
  kMma,
  kShuffle,
  kLoadShared,
  kStoreShared,
  kLoadGlobal,
  kStoreGlobal
};
const char* event_name(EventKind kind);  // "copy_issue", ...

/// One warp instruction. Events of one warp stand in program order; over warps, in the order in
/// which the emulator ran them.
struct Event {
  EventKind kind{};
  int block = 0;
  int warp = 0;
  int64_t step = 0;  // how many instructions this warp had executed before
  Site where;
  int group = -1;           // copy_issue, commit, land: number of the commit group, from 0
  int pending_groups = -1;  // wait: the N of wait_group N
  int bytes = 0;            // moved by all lanes (copy_issue, land, loads and stores)
  uint32_t address = 0;     // copy_issue, ldmatrix: lane 0's offset in dynamic shared memory
  uint64_t source = 0;      // copy_issue: lane 0's global address (Buffer names: buffer_of)
};

struct Report {
  Counters counters;
  std::vector<Hazard> hazards;  // sorted by kind, file, line
  std::vector<Event> events;
};

/// Runs `body` on this thread; every emulator::launch inside uses `config` and adds to the report.
/// An exception from a kernel passes through. Runs do not nest. A launch outside any run uses the
/// default Config and throws std::runtime_error with the text of the first hazard, if there is one.
Report run(const Config& config, const std::function<void()>& body);

}  // namespace fa::simt
