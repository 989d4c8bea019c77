#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "exercises/support/warp.hpp"

// The answer's waits come by here: a parity is 0 or 1, and hardware promises nothing for more.
namespace emulator::ex12 {
static int other_parity = 0;  // one that was neither
inline void mbarrier_wait(uint32_t mbarrier, int parity, FA_SITE) {
  if (parity != 0 && parity != 1) other_parity = parity;
  emulator::mbarrier_wait(mbarrier, parity, line, file);
}
}  // namespace emulator::ex12

#include <who_waits.hpp>

using namespace emulator;
using emulator::ex12::stream_tiles, emulator::ex12::TILE_ROWS, emulator::ex12::TILE_BYTES;
using fa::simt::EventKind;

constexpr int NUM_THREADS = 64;
constexpr int ROOM = 16;  // for the reads of a loop that does not end when it should
constexpr uint16_t NO_READ = 0xFFFE;

// Each thread reads a piece of its own; all elements of tile t are t + 1.
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

// The kernel as people write it: right as it stands here, and each mistake is a change to it.
struct Way {
  enum Ask { kThread0, kEachWarp, kEveryThread } ask = kThread0;
  enum Wait { kAll, kAsker, kAskersWarp, kFirstLanes, kNone } wait = kAll;
  bool fence = true, init_barrier = true;
  enum Barrier {
    kTop,
    kEnd,
    kBehindCopy,
    kBehindWait,
    kEndAndBehindCopy,
    kOfAsker,
    kMissing
  } barrier = kTop;
  enum Parity { kOfTile, kZero, kOne, kOther, kOfTwoBuffers, kTile } parity = kOfTile;
  int arrivals = 1;
  enum Init { kOnce, kEachTile, kByAll } init = kOnce;
  enum Row { kFirst, kTileForRow, kBehindTheEnd, kColumn } row = kFirst;
  bool ahead = false;  // the next tile is asked for before this one is read
  enum Expect {
    kArriveAndExpect,
    kCopyOnly,
    kOnce0,
    kByEach,
    kHalf,
    kOfAllTiles
  } expect = kArriveAndExpect;
  int more_turns = 0;
};

static void stream_with_way(const Way& way, Steps& steps, const TensorMap& map, uint32_t smem,
                            uint32_t full, int num_tiles) {
  const auto init = [&] {
    if (thread_index() != 0 && way.init != Way::kByAll) return;
    mbarrier_init(full, way.arrivals);
    if (way.fence) fence_mbarrier_init();
  };
  if (way.init != Way::kEachTile) init();
  if (way.init_barrier) block_sync();
  for (int tile = 0; tile < num_tiles + way.more_turns; ++tile) {
    if (way.barrier == Way::kTop) block_sync();
    if (way.init == Way::kEachTile) init(), block_sync();
    const auto copy = [&](int of) {
      const int first = way.row == Way::kFirst        ? of * TILE_ROWS
                        : way.row == Way::kTileForRow ? of
                        : way.row == Way::kColumn     ? 0
                                                      : of * static_cast<int>(TILE_BYTES);
      tma_load_2d(smem, map, way.row == Way::kColumn ? of * TILE_ROWS : 0, first, full);
    };
    const bool asks = way.ask == Way::kEveryThread ||
                      (way.ask == Way::kEachWarp ? thread_index() % 32 == 0 : thread_index() == 0);
    if (way.expect == Way::kByEach) mbarrier_arrive_expect_tx(full, TILE_BYTES);
    if (asks) {
      if (way.barrier == Way::kOfAsker && tile > 0) block_sync();
      const bool expects = way.expect != Way::kCopyOnly && way.expect != Way::kByEach &&
                           (way.expect != Way::kOnce0 || tile == 0);
      const uint32_t bytes = way.expect == Way::kHalf         ? TILE_BYTES / 2
                             : way.expect == Way::kOfAllTiles ? TILE_BYTES * num_tiles
                                                              : TILE_BYTES;
      if (!way.ahead || tile == 0) {
        if (expects) mbarrier_arrive_expect_tx(full, bytes);
        copy(tile);
      }
    }
    if (way.barrier == Way::kBehindCopy || way.barrier == Way::kEndAndBehindCopy) block_sync();
    const int parity = way.parity == Way::kZero           ? 0
                       : way.parity == Way::kOne          ? 1
                       : way.parity == Way::kOther        ? (tile + 1) % 2
                       : way.parity == Way::kOfTwoBuffers ? tile / 2 % 2
                       : way.parity == Way::kTile         ? tile
                                                          : tile % 2;
    if (way.wait == Way::kAll || (way.wait == Way::kAsker && asks) ||
        (way.wait == Way::kAskersWarp && thread_index() < 32) ||
        (way.wait == Way::kFirstLanes && thread_index() % 32 == 0))
      ex12::mbarrier_wait(full, parity);
    if (way.ahead && asks && tile + 1 < num_tiles) {
      mbarrier_arrive_expect_tx(full, TILE_BYTES);
      copy(tile + 1);
    }
    if (way.barrier == Way::kBehindWait) block_sync();
    steps.read();
    if (way.barrier == Way::kEnd || way.barrier == Way::kEndAndBehindCopy) block_sync();
  }
}

// The same under several orders of the threads, as which of them reads too early is chance.
struct Runs {
  std::set<std::string> kinds;  // of hazards
  std::string first;            // the hazards and the wrong read of the first run that has some
  std::string lacking;          // what the mbarrier lacks, if all wait for it
  bool wrong[ROOM] = {};        // of each read: did some thread see something else?
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
    for (const uint16_t tile : seen.tiles) runs.values += std::to_string(tile) + " ";
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
  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    const auto kernel = [&](auto&&... args) { stream_with_way(way, args...); };
    looks.push_back({name, run_all(num_tiles, kernel).shown(), explanation});
  };
  using W = Way;
  const char* const some =
      "not all wait that read: if only the thread that asked does, or one of a warp, the others "
      "read without knowing that the tile has landed; a wait speaks for the thread that waits";
  const char* const reuse =
      "no barrier stands between a read and the next copy: the engine overwrites what the other "
      "warp still reads";
  const char* const init =
      "nothing orders the other threads behind mbarrier_init: they wait at an mbarrier that may "
      "not exist yet; a block_sync must stand between";
  const char* const all_ask =
      "every thread asks: 64 copies to one place, and 64 arrivals where one is counted; one thread "
      "asks";
  const char* const late =
      "the barrier stands between the copy and its read; what it must separate is a read and the "
      "next copy";
  for (const W::Barrier barrier : {W::kTop, W::kEnd}) {
    mistake("not-all-wait", some, {.wait = W::kAsker, .barrier = barrier});
    mistake("not-all-wait", some, {.wait = W::kFirstLanes, .barrier = barrier});
    mistake("not-all-wait", some, {.wait = W::kAskersWarp, .barrier = barrier});
    mistake("nobody-waits",
            "nobody waits at the mbarrier: a barrier orders threads, not the engine",
            {.wait = W::kNone, .barrier = barrier});
    mistake(
        "same-parity",
        "the parity is the same for each tile: a phase ends with each tile, so it flips with each",
        {.barrier = barrier, .parity = W::kZero});
    mistake("same-parity",
            "the parity is the same for each tile: a phase ends with each tile, so it flips with "
            "each; and the first phase is 0",
            {.barrier = barrier, .parity = W::kOne});
    mistake("parity-before",
            "the parity is that of the phase before, which has ended: the wait passes at once; "
            "tile 0 is phase 0",
            {.barrier = barrier, .parity = W::kOther});
    mistake("every-thread-asks", all_ask, {.ask = W::kEveryThread, .barrier = barrier});
    mistake("every-thread-asks", all_ask,
            {.ask = W::kEveryThread, .barrier = barrier, .arrivals = NUM_THREADS});
    mistake("each-warp-asks",
            "one thread of each warp asks: two copies to one place; one thread of the block asks",
            {.ask = W::kEachWarp, .barrier = barrier});
    mistake("each-warp-asks",
            "one thread of each warp asks: two copies to one place; one thread of the block asks",
            {.ask = W::kEachWarp, .barrier = barrier, .arrivals = 2});
    mistake("arrivals-of-all",
            "the mbarrier counts an arrival of each thread; one arrives, with the bytes",
            {.barrier = barrier, .arrivals = NUM_THREADS});
    mistake("nothing-expected",
            "nobody has told the mbarrier of the bytes, nor arrived: its phase never ends",
            {.barrier = barrier, .expect = W::kCopyOnly});
    mistake("expected-once",
            "the bytes were expected for the first tile only; each phase counts anew",
            {.barrier = barrier, .expect = W::kOnce0});
    mistake("init-fence-missing",
            "no fence_mbarrier_init stands between mbarrier_init and the copy: the engine may not "
            "see the mbarrier",
            {.fence = false, .barrier = barrier});
    mistake("made-by-all", "every thread initializes the mbarrier; one does, and once",
            {.barrier = barrier, .init = W::kByAll});
    mistake("made-for-each-tile",
            "the mbarrier is initialized again for each tile; its next phase begins by itself",
            {.barrier = barrier, .init = W::kEachTile});
    mistake("tile-for-row", "the coordinate is the tile's number; it is the first row's",
            {.barrier = barrier, .row = W::kTileForRow});
    mistake("made-for-each-tile",
            "the mbarrier is initialized again for each tile; its next phase begins by itself, and "
            "the parity flips",
            {.barrier = barrier, .parity = W::kZero, .init = W::kEachTile});
    mistake("box-behind-the-end",
            "the box lies behind the end of the map, and zeros come: the tile's first row was "
            "given in elements or bytes, or a column that is not 0",
            {.barrier = barrier, .row = W::kBehindTheEnd});
    mistake("column-for-row",
            "the tile's first row was given as a column; the column is 0, the row comes after it",
            {.barrier = barrier, .row = W::kColumn});
    mistake("parity-of-two-buffers",
            "the parity flips with every second tile, as in a ring of two buffers; here is one, "
            "and its phase ends with each tile",
            {.barrier = barrier, .parity = W::kOfTwoBuffers});
    mistake("phase-for-parity", "this is the number of the phase; a parity is its last bit, 0 or 1",
            {.barrier = barrier, .parity = W::kTile});
    for (const int arrivals : {1, NUM_THREADS}) {
      mistake("expected-by-all",
              "each thread expects the tile's bytes, 64 times as many as come; one thread expects",
              {.barrier = barrier, .arrivals = arrivals, .expect = W::kByEach});
    }
    mistake("half-expected",
            "half of the bytes were expected, as if they were elements; TILE_BYTES come",
            {.barrier = barrier, .expect = W::kHalf});
    mistake("all-tiles-expected",
            "the bytes of all tiles were expected at once; a phase counts those of its own tile",
            {.barrier = barrier, .expect = W::kOfAllTiles});
    mistake("next-tile-too-early",
            "the next tile is asked for before this one is read; there is one buffer, and the "
            "engine overwrites it",
            {.barrier = barrier, .ahead = true});
    mistake("last-tile-missing", "the loop ends one turn too early: the last tile is left out",
            {.barrier = barrier, .more_turns = -1});
    mistake("one-turn-too-many", "the loop takes one turn more than there are tiles: < and not <=",
            {.barrier = barrier, .more_turns = 1});
  }
  mistake("nobody-waits", "nobody waits at the mbarrier: a barrier orders threads, not the engine",
          {.wait = W::kNone, .barrier = W::kEndAndBehindCopy});
  mistake("nobody-waits", "nobody waits at the mbarrier: a barrier orders threads, not the engine",
          {.wait = W::kNone, .barrier = W::kBehindCopy});
  mistake("barrier-of-one-thread",
          "block_sync stands in the branch of the thread that asks; all threads must come to it",
          {.barrier = W::kOfAsker});
  mistake("no-barrier-before-reuse", reuse, {.barrier = W::kMissing});
  mistake("barrier-too-late", late, {.wait = W::kAsker, .barrier = W::kBehindWait});
  mistake("barrier-too-late", late, {.barrier = W::kBehindCopy});
  mistake("barrier-too-late", late, {.barrier = W::kBehindWait});
  mistake("no-barrier-behind-init", init, {.init_barrier = false, .barrier = W::kEnd});
  mistake("no-barrier-behind-init", init, {.init_barrier = false, .barrier = W::kMissing});
  exercise::check_shown(runs.right(), runs.first, runs.shown(), looks);
}

TEST_CASE("one tile") { check_stream(1); }
TEST_CASE("two tiles") { check_stream(2); }
TEST_CASE("five tiles") { check_stream(5); }
