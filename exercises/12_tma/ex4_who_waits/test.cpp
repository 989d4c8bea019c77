#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "exercises/support/warp.hpp"

// The answer's waits come by here, because a parity is 0 or 1, and hardware promises nothing for
// more.
namespace emulator::ex12 {
static int other_parity = 0;  // one that was neither
inline void mbarrier_wait(uint32_t mbarrier, int parity, FA_SITE) {
  if (parity != 0 && parity != 1) other_parity = parity;
  emulator::mbarrier_wait(mbarrier, parity, line, file);
}
}  // namespace emulator::ex12

#include <who_waits.hpp>

using exercise::Changes;
using namespace emulator;
using emulator::ex12::stream_tiles, emulator::ex12::TILE_ROWS, emulator::ex12::TILE_BYTES;
using fa::simt::EventKind;

constexpr int NUM_THREADS = 64;
constexpr int ROOM = 16;  // for the reads of a loop that does not end when it should
constexpr uint16_t NO_READ = 0xFFFE;

// Each thread reads a different piece, and all elements of tile t are t + 1.
struct Steps {
  uint32_t smem;
  std::vector<uint16_t>* seen;  // [read][thread]
  int count = 0;

  void read(FA_SITE) {
    const uint16_t value =
        load_shared<uint16_t>(smem + thread_index() * (TILE_BYTES / NUM_THREADS), line, file);
    if (count < ROOM) (*seen)[count++ * NUM_THREADS + thread_index()] = value;
  }
};

struct Seen {
  std::vector<uint16_t> tiles = std::vector<uint16_t>(ROOM * NUM_THREADS, NO_READ);
  fa::simt::Report report;

  uint16_t at(int read, int thread) const { return tiles[read * NUM_THREADS + thread]; }
};

template <class Kernel>
static Seen run(int num_tiles, uint64_t schedule, Kernel kernel) {
  fa::simt::Buffer<bf16> K(static_cast<size_t>(num_tiles) * TILE_ROWS * 64, "K");
  for (size_t i = 0; i < K.size(); ++i) K[i].bits = static_cast<uint16_t>(i / (TILE_ROWS * 64) + 1);
  const TensorMap map = make_tensor_map(K.data(), {64, num_tiles * TILE_ROWS}, {128},
                                        {64, TILE_ROWS}, Swizzle::bytes_128);
  Seen seen;
  fa::simt::Config config;
  config.events = true;
  config.schedule_seed = schedule;
  seen.report = exercise::run_block(
      NUM_THREADS, TILE_BYTES + 8,
      [&] {
        Steps steps{dynamic_smem(), &seen.tiles};
        kernel(steps, map, dynamic_smem(), dynamic_smem() + TILE_BYTES, num_tiles);
      },
      config);
  return seen;
}

static const exercise::Table MISTAKES(R"(
$at = {,end}
not-all-wait: {asker,first-lanes,askers-warp} $at
  not all threads that read also wait. If only the thread that issues the copy waits, or one thread
  per warp, the others read without knowing that the tile has landed, because a wait covers only the
  thread that waits
nobody-waits: none $at
  no thread waits at the mbarrier. A barrier orders threads, but not the copy engine
same-parity: zero $at
  the parity is the same for each tile: a phase ends with each tile, so it flips with each
same-parity: one $at
  the parity is the same for each tile: a phase ends with each tile, so it flips with each. And the
  first phase is 0
parity-before: other $at
  the parity is that of the previous phase, which has ended, so that the wait returns immediately.
  Tile 0 is phase 0
every-thread-asks: every-thread {,arrivals=64} $at
  every thread issues the copy: 64 copies to one place, and 64 arrivals where one is counted. Only
  one thread may issue it
each-warp-asks: each-warp {,arrivals=2} $at
  one thread of each warp issues the copy, so that two copies go to one place. Only one thread of
  the block may issue it
arrivals-of-all: arrivals=64 $at
  the mbarrier counts an arrival of each thread. One arrives, with the bytes
nothing-expected: copy-only $at
  no thread has told the mbarrier how many bytes will come, and none has arrived, so that its phase
  never ends
expected-once: once-0 $at
  the bytes were expected for the first tile only. Each phase counts anew
init-fence-missing: no-fence $at
  there is no fence_mbarrier_init between mbarrier_init and the copy, so that the engine may not see
  the mbarrier
made-by-all: by-all $at
  every thread initializes the mbarrier. One does, and once
made-for-each-tile: each-tile $at
  the mbarrier is initialized again for each tile. Its next phase begins by itself
tile-for-row: tile-for-row $at
  the coordinate is the tile's number. It should be that of the first row
made-for-each-tile: zero each-tile $at
  the mbarrier is initialized again for each tile. Its next phase begins by itself, and the parity
  flips
box-behind-the-end: behind-the-end $at
  the box is past the end of the map, where the engine writes zeros. The tile's first row was given
  in elements or bytes, or a column that is not 0
column-for-row: column $at
  the tile's first row was given as a column. The column is 0, the row comes after it
parity-of-two-buffers: of-two-buffers $at
  the parity flips with every second tile, as in a ring of two buffers. Here is one, and its phase
  ends with each tile
phase-for-parity: tile $at
  this is the number of the phase. A parity is its last bit, 0 or 1
expected-by-all: {,arrivals=64} by-each $at
  each thread expects the tile's bytes, 64 times as many as come. One thread expects
half-expected: half $at
  half of the bytes were expected, as if they were elements. TILE_BYTES bytes come
all-tiles-expected: of-all-tiles $at
  the bytes of all tiles were expected in one phase. A phase counts the bytes of one tile
next-tile-too-early: ahead $at
  the copy of the next tile is issued before this tile is read. There is one buffer, and the engine
  overwrites it
last-tile-missing: last-tile-missing $at
  the loop ends one turn too early: the last tile is left out
one-turn-too-many: one-turn-too-many $at
  the loop takes one turn more than there are tiles: < and not <=
nobody-waits: none end-and-behind-copy; none behind-copy
  no thread waits at the mbarrier. A barrier orders threads, but not the copy engine
barrier-of-one-thread
  block_sync is in the branch of the thread that issues the copy. All threads must call it
no-barrier-before-reuse
  there is no barrier between a read and the next copy, so that the engine overwrites the data that
  the other warp still reads
barrier-too-late: asker behind-wait; behind-copy; behind-wait
  the barrier is between the copy and its read. It must be between a read and the next copy
no-barrier-behind-init: no-barrier-behind-init {end,no-barrier-before-reuse}
  nothing orders the other threads after mbarrier_init, so that they may wait at an mbarrier that
  does not exist yet. Put a block_sync between
)");

// The right kernel, and each mistake as a change to it.
static void stream_with(const Changes& is, Steps& steps, const TensorMap& map, uint32_t smem,
                        uint32_t full, int num_tiles) {
  const auto init = [&] {
    if (thread_index() != 0 && !is("by-all")) return;
    mbarrier_init(full, is.integer("arrivals", 1));
    if (!is("no-fence")) fence_mbarrier_init();
  };
  if (!is("each-tile")) init();
  if (!is("no-barrier-behind-init")) block_sync();
  for (int tile = 0; tile < num_tiles + is("one-turn-too-many") - is("last-tile-missing"); ++tile) {
    if (!is.any("end", "behind-copy", "behind-wait", "end-and-behind-copy", "barrier-of-one-thread",
                "no-barrier-before-reuse"))
      block_sync();
    if (is("each-tile")) init(), block_sync();
    const auto copy = [&](int of) {
      const int first = is("tile-for-row")     ? of
                        : is("column")         ? 0
                        : is("behind-the-end") ? of * static_cast<int>(TILE_BYTES)
                                               : of * TILE_ROWS;
      tma_load_2d(smem, map, is("column") ? of * TILE_ROWS : 0, first, full);
    };
    const bool asks =
        is("every-thread") || (is("each-warp") ? thread_index() % 32 == 0 : thread_index() == 0);
    if (is("by-each")) mbarrier_arrive_expect_tx(full, TILE_BYTES);
    if (asks) {
      if (is("barrier-of-one-thread") && tile > 0) block_sync();
      const bool expects = !is("copy-only") && !is("by-each") && (!is("once-0") || tile == 0);
      const uint32_t bytes = is("half")           ? TILE_BYTES / 2
                             : is("of-all-tiles") ? TILE_BYTES * num_tiles
                                                  : TILE_BYTES;
      if (!is("ahead") || tile == 0) {
        if (expects) mbarrier_arrive_expect_tx(full, bytes);
        copy(tile);
      }
    }
    if (is("behind-copy") || is("end-and-behind-copy")) block_sync();
    const int parity = is("zero")             ? 0
                       : is("one")            ? 1
                       : is("other")          ? (tile + 1) % 2
                       : is("of-two-buffers") ? tile / 2 % 2
                       : is("tile")           ? tile
                                              : tile % 2;
    const bool waits = is("asker")         ? asks
                       : is("askers-warp") ? thread_index() < 32
                       : is("first-lanes") ? thread_index() % 32 == 0
                                           : !is("none");
    if (waits) ex12::mbarrier_wait(full, parity);
    if (is("ahead") && asks && tile + 1 < num_tiles) {
      mbarrier_arrive_expect_tx(full, TILE_BYTES);
      copy(tile + 1);
    }
    if (is("behind-wait")) block_sync();
    steps.read();
    if (is("end") || is("end-and-behind-copy")) block_sync();
  }
}

// The same under several orders of the threads, as which of them reads too early is chance.
struct Runs {
  std::set<std::string> kinds;  // kinds of hazards
  std::string first;            // the hazards and the wrong read of the first run that has some
  std::string lacking;          // what is missing at the mbarrier, if all wait for it
  bool wrong[ROOM] = {};        // for each read, true if some thread saw something else
  std::string values;           // what was seen, where no hazard makes it chance
  int other_parity = 0;
  int64_t copies = 0;
  std::string barriers;

  bool right() const { return first.empty(); }
  // All that a mistake must explain. Without a hazard there may be barriers as one likes.
  std::string shown() const {
    std::string all = kinds.empty() ? "" : barriers + std::to_string(copies) + " copies\n";
    for (const std::string& kind : kinds) all += kind + "\n";
    for (const bool is_wrong : wrong) all += is_wrong ? "x" : ".";
    if (kinds.empty()) all += values;
    if (other_parity != 0) all += " parity " + std::to_string(other_parity);
    return all + lacking;
  }
};

static std::string name(int tile) {
  return tile == NO_READ               ? "none"
         : tile == exercise::UNWRITTEN ? "NaN: no tile that has landed"
         : tile == 0                   ? "zero: no row of the map"
                                       : "tile " + std::to_string(tile - 1);
}

template <class Kernel>
static Runs run_all(int num_tiles, Kernel kernel) {
  Runs runs;
  ex12::other_parity = 0;
  for (uint64_t schedule = 0; schedule < 6; ++schedule) {
    const Seen seen = run(num_tiles, schedule, kernel);
    std::string message;
    for (int read = 0; read < ROOM; ++read)
      for (int thread = 0; thread < NUM_THREADS; ++thread) {
        const int expected = read < num_tiles ? read + 1 : NO_READ, got = seen.at(read, thread);
        if (got == expected) continue;
        if (message.empty())
          message = "read " + std::to_string(read) + " of thread " + std::to_string(thread) +
                    ": expected " + name(expected) + ", got " + name(got) + "\n";
        runs.wrong[read] = true;
      }
    message = exercise::hazards(seen.report) + message;
    if (ex12::other_parity != 0)
      message += "a parity is 0 or 1, and not " + std::to_string(ex12::other_parity) + "\n";
    runs.values += exercise::bytes(seen.tiles);
    if (runs.first.empty()) runs.first = message;
    for (const fa::simt::Hazard& hazard : seen.report.hazards)
      runs.kinds.insert(fa::simt::hazard_name(hazard.kind));
    if (seen.report.hazards.size() == 1) {
      const std::string& text = seen.report.hazards[0].text;
      runs.lacking = text.substr(std::min(text.find("whose phase"), text.size()));
    }
    runs.copies =
        std::max(runs.copies, seen.report.counters.tma_bytes / static_cast<int64_t>(TILE_BYTES));
    runs.barriers = exercise::synchronization(seen.report, num_tiles, 1, 1);
  }
  runs.other_parity = ex12::other_parity;
  return runs;
}

static void check_stream(int num_tiles) {
  const Runs runs = run_all(num_tiles, [](auto&&... args) { stream_tiles(args...); });
  const auto looks = exercise::looks(MISTAKES, [&](const Changes& is) {
    return run_all(num_tiles, [&](auto&&... args) { stream_with(is, args...); }).shown();
  });
  exercise::check_shown(runs.right(), runs.first, runs.shown(), looks);
}

TEST_CASE("one tile") { check_stream(1); }
TEST_CASE("two tiles") { check_stream(2); }
TEST_CASE("five tiles") { check_stream(5); }
