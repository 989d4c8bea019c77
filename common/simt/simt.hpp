#pragma once
// Runs CUDA-style kernels on the CPU and reports their counters, hazards and events.
//
//   fa::simt::Buffer<fa::bf16> K(batch * heads * len_kv * dim, "K");     // "global memory"
//   fa::simt::Report report = fa::simt::run(config, [&] {
//     emulator::launch(kernel, grid, block, smem_bytes, K.data(), ...);  // any number of launches
//   });
//   report.counters.mma_instructions, report.hazards[0].text, report.events
//
// Kernels include common/simt/device.hpp (through common/backend.hpp). README.md explains how the
// emulator works.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/simt/buffer.hpp"
#include "common/simt/counters.hpp"

namespace fa::simt {

/// A barrier or a wait that a run leaves out or weakens, to show what it protects against. A name
/// that matches no place in the kernel leaves nothing out, and Report::synchronizations then shows
/// that.
struct LeaveOut {
  std::string site;      // label, or source line as in reports: "attention.hpp:204"
  int except_warp = -1;  // this warp still executes it, and only the others leave it out
  int more_groups = 0;   // for cp_async_wait, the additional groups that may stay in flight
};

/// Settings of a run.
struct Config {
  uint64_t schedule_seed = 0;  // order of warps and lanes; 0 is the natural order
  bool hazards = true;         // detect races and bad accesses
  bool counters = true;        // count instructions, wavefronts and sectors
  bool events = false;         // record what each warp of the first event_blocks blocks executes
  int event_blocks = 1;
  int threads = 0;                       // CPU threads that run blocks, or 0 for one per core
  int64_t max_steps = int64_t{1} << 28;  // instructions after which a thread counts as endless
  std::vector<LeaveOut> leave_out = {};
  // CUDA's rules. A thread that has returned counts as arrived at block barriers. Lanes of a warp
  // that store the same value with one instruction are noted (same_value_store), which is not a
  // hazard. Races between threads of one block in global memory are found, and atomics counted
  // (Counters::global_atomic_sectors and the three after it).
  bool cuda_rules = false;
  int granule_bytes = 2;    // size of the smallest access to shared memory: 1, 2 or 4
  bool async_proxy = true;  // false: no kernel has bulk copies or wgmma
  bool lines = false;       // Report::lines
};

enum class HazardKind {
  kReadBeforeWait,       // reads bytes of a cp.async that the thread has not waited for
  kReadBeforeBarrier,    // reads another thread's bytes without a barrier after the store or the
                         // wait
  kOverwriteWhileRead,   // overwrites bytes that another thread reads, without a barrier between
  kWriteWrite,           // two unordered writes
  kUninitializedRead,    // reads shared memory that no thread has written
  kOutOfBounds,          // accesses bytes outside shared memory or all registered buffers
  kMisaligned,           // uses an address that the instruction does not accept
  kBarrierDivergence,    // a barrier or warp instruction that not every thread reaches
  kDeadlock,             // no thread can continue, or threads never finish
  kGlobalRace,           // two blocks (or, in a CUDA file, threads) access the same global memory
                         // without an order
  kMissingProxyFence,    // async proxy after ordinary stores, without the writer's proxy fence
  kWaitWrongPhase,       // the parity refers to another phase of the mbarrier than intended
  kTransactionMismatch,  // the bytes that an mbarrier expects differ from those that arrive
  kRegistersInFlight,    // uses registers of a wgmma before its wait or without a fence
  kDivisionByZero,       // an integer division by zero
  kClusterRace,          // two blocks access the shared memory of one of them without an order
  kInactiveLane,         // a shuffle that reads a lane which does not take part
  kSameValueStore,       // a note that lanes of a warp store the same value with one instruction
  kBadDescriptor,        // a matrix descriptor that is malformed or leaves its tile
};
const char* hazard_name(HazardKind kind);  // "read_before_wait", ...

/// A line of a kernel's source.
struct Site {
  const char* file = "";
  int line = 0;
};

/// One defect, which stands for all accesses of one kind at one source line. The example is the
/// first one found in the lowest-numbered block that has it.
struct Hazard {
  HazardKind kind{};
  Site where;         // the faulty access
  Site other;         // the access that it conflicts with, with line 0 if there is none
  int64_t count = 0;  // accesses (ldmatrix: per row; load, store, cp.async: per thread);
                      // global_race: blocks
  int block = 0;
  int thread = -1;                     // thread of `where`, as its index in the block
  int other_thread = -1;               // thread of `other`; -1 for none, or any
  int64_t step = -1, other_step = -1;  // Event::step of the two, or -1 if unknown
  uint64_t address = 0;  // bytes from the start of dynamic shared memory, or a global pointer
  std::string text;      // full description in one sentence
};

enum class EventKind {
  kCopyIssue,
  kCommit,
  kWait,
  kLand,
  kBarrier,
  kBarrierArrive,
  kClusterSync,
  kWarpSync,
  kLdmatrix,
  kMma,
  kShuffle,
  kVote,
  kLoadShared,
  kStoreShared,
  kLoadGlobal,
  kStoreGlobal,
  kAtomic,
  kFence,
  kMbarrier,
  kArriving,
  kAwaiting,
  kTmaLoad,
  kTmaStore,
  kWgmma,
  kRegisters
};
const char* event_name(EventKind kind);  // "copy_issue", ...

/// An operand of wgmma in shared memory.
struct EventOperand {
  uint64_t descriptor = 0;  // 0 if the operand is in registers, without a descriptor
  bool mn_major = false;
  int address = 0;  // start address, as offset in dynamic shared memory, in bytes
};

/// One warp instruction. Events of one warp are in program order, but events of different warps are
/// in the order in which the emulator ran them.
struct Event {
  EventKind kind{};
  int block = 0;
  int warp = 0;
  int64_t step = 0;  // number of instructions that this warp had executed before
  Site where;
  int group = -1;           // copy_issue, commit, land: number of the commit group, from 0
  int pending_groups = -1;  // for a wait, the N of wait_group N
  int barrier = -1;         // barrier, barrier_arrive: number of the barrier
  int bytes = 0;            // sum over the lanes (copies, land, loads, stores); mbarrier_arrive:
                            // bytes expected, summed over the lanes
  uint32_t address = 0;     // copies, ldmatrix: lane 0's offset in dynamic shared memory
  uint64_t source = 0;      // copies: lane 0's global address (buffer_of gives the Buffer's name)
  // The following fields describe the first participating lane.
  int mbarrier = -1;  // mbarrier_…, tma_load: offset in dynamic shared memory
  int phase = -1;     // phase that counts the arrival or copy; for a wait: the phase it refers to,
                      // -1: before phase 0
  int parity = -1;    // mbarrier_wait: the parity passed to it
  std::vector<int> coordinates = {};  // tma_load, tma_store: first element of the box
  // The following fields describe wgmma.
  int n = 0;  // columns of B
  EventOperand a = {}, b = {};
};

/// A barrier or wait in the source of a kernel that ran.
struct Synchronization {
  std::string instruction;  // name of the call: "block_sync"
  Site where;
  std::string label;      // label in the source, usually empty
  bool left_out = false;  // Config::leave_out named it
};

/// A row of score tiles that a block works on, as the kernel reports it (tile_row, tile_visit).
struct TileVisit {
  int column;
  bool masked;
};
struct TileRow {
  int block = 0;
  int row = 0, columns = 0;
  std::vector<TileVisit> visits;  // in the order of the visits
};

/// Counts of the traffic that the instructions of one source line caused.
struct LineCounters {
  Site where;
  int64_t shared_wavefronts = 0, shared_wavefronts_ideal = 0;
  int64_t global_sectors = 0, global_sectors_ideal = 0;
};

struct Report {
  Counters counters;
  std::vector<Hazard> hazards;  // sorted by kind, file, line
  std::vector<Event> events;
  std::vector<Synchronization> synchronizations;  // sorted by file and line, each place once
  std::vector<TileRow> tiles;                     // sorted by block
  std::vector<LineCounters> lines;                // for Config::lines, sorted by file and line
};

/// Runs `body` on this thread. Every emulator::launch inside it uses `config` and adds to the
/// returned report. Exceptions from kernels propagate. Runs do not nest. A launch outside any run
/// uses the default Config and throws std::runtime_error with the text of the first hazard, if
/// there is one.
Report run(const Config& config, const std::function<void()>& body);

}  // namespace fa::simt
