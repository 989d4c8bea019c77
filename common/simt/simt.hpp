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
#include "common/simt/counters.hpp"

namespace fa::simt {

/// A barrier or a wait that a run does without, or weakens: what would happen then? A name that no
/// place of the kernel has leaves nothing out: Report::synchronizations says what was.
struct LeaveOut {
  std::string site;      // its label, or where it stands: "attention.hpp:204", as in any report
  int except_warp = -1;  // this warp executes it all the same, and the others do not
  int more_groups = 0;   // a cp_async_wait that lets so many groups more stay in flight
};

/// What a run does besides computing the result.
struct Config {
  uint64_t schedule_seed = 0;  // 0: natural order; any other: another order of warps and lanes
  bool hazards = true;         // look for races and bad accesses
  bool counters = true;        // count instructions, wavefronts, sectors
  bool events = false;         // log what each warp of the first event_blocks blocks does
  int event_blocks = 1;
  int threads = 0;                       // CPU threads that run blocks; 0: one for each core
  int64_t max_steps = int64_t{1} << 28;  // instructions of a thread; one that takes more never ends
  std::vector<LeaveOut> leave_out = {};
};

enum class HazardKind {
  kReadBeforeWait,       // bytes of a cp.async that its thread has not waited for
  kReadBeforeBarrier,    // another thread's bytes, no barrier since it stored or waited for them
  kOverwriteWhileRead,   // bytes that another thread reads, no barrier since
  kWriteWrite,           // two writes that nothing orders
  kUninitializedRead,    // shared memory that nobody wrote
  kOutOfBounds,          // outside shared memory or every registered buffer
  kMisaligned,           // an address that the instruction does not accept
  kBarrierDivergence,    // a barrier or warp instruction that not every thread reaches
  kDeadlock,             // nobody can go on, or threads go on for ever
  kGlobalRace,           // two blocks at the same global memory, and nothing orders them
  kMissingProxyFence,    // ordinary stores, then the async proxy, without a fence of the writer
  kWaitWrongPhase,       // a parity that means another phase of the mbarrier than it should
  kTransactionMismatch,  // an mbarrier's expected bytes and those that come do not fit
  kRegistersInFlight,    // registers of a wgmma, used before its wait or without a fence
  kBadDescriptor,        // a matrix descriptor that leaves its tile, or cannot be one
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
  int64_t count = 0;  // accesses (a row of an ldmatrix, one thread's load, store or cp.async);
                      // global_race: blocks
  int block = 0;
  int thread = -1;                     // of `where`, in its block
  int other_thread = -1;               // of `other`; -1: none, or any
  int64_t step = -1, other_step = -1;  // Event::step of the two; -1: not known
  uint64_t address = 0;  // shared: bytes from the start of dynamic memory; global: a pointer
  std::string text;      // the whole finding as a sentence
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
  uint64_t descriptor = 0;  // 0: there is none, the operand is in registers
  bool mn_major = false;
  int address = 0;  // that the descriptor begins at: its offset in dynamic shared memory
};

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
  int barrier = -1;         // barrier, barrier_arrive: its number
  int bytes = 0;            // moved by all lanes (copies, land, loads and stores); mbarrier_arrive:
                            // that all lanes expect
  uint32_t address = 0;     // copies, ldmatrix: lane 0's offset in dynamic shared memory
  uint64_t source = 0;      // copies: lane 0's global address (Buffer names: buffer_of)
  // Of the first of the lanes:
  int mbarrier = -1;  // mbarrier_…, tma_load: its offset in dynamic shared memory
  int phase = -1;   // that counts the arrival or the copy; that a wait means, -1: before the first
  int parity = -1;  // mbarrier_wait: that it gives
  std::vector<int> coordinates = {};  // tma_load, tma_store: of the box's first element
  // wgmma:
  int n = 0;  // columns of B
  EventOperand a = {}, b = {};
};

/// A barrier or wait in the source of a kernel that ran.
struct Synchronization {
  std::string instruction;  // "block_sync"
  Site where;
  std::string label;      // what the source calls it; mostly nothing
  bool left_out = false;  // Config::leave_out named it
};

/// A row of tiles of scores that a block works on, as its kernel says (tile_row, tile_visit).
struct TileVisit {
  int column;
  bool masked;
};
struct TileRow {
  int block = 0;
  int row = 0, columns = 0;
  std::vector<TileVisit> visits;  // in order
};

struct Report {
  Counters counters;
  std::vector<Hazard> hazards;  // sorted by kind, file, line
  std::vector<Event> events;
  std::vector<Synchronization> synchronizations;  // sorted by file and line, each once
  std::vector<TileRow> tiles;                     // by block
};

/// Runs `body` on this thread; every emulator::launch inside uses `config` and adds to the report.
/// An exception from a kernel passes through. Runs do not nest. A launch outside any run uses the
/// default Config and throws std::runtime_error with the text of the first hazard, if there is one.
Report run(const Config& config, const std::function<void()>& body);

}  // namespace fa::simt
