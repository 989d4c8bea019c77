#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "exercises/support/warp.hpp"

// The answer's waits come by here.
namespace emulator::ex14 {
static bool no_parity = false;  // was a parity neither 0 nor 1?
inline void mbarrier_wait(uint32_t mbarrier, int parity, FA_SITE) {
  no_parity = no_parity || (parity != 0 && parity != 1);
  emulator::mbarrier_wait(mbarrier, parity, line, file);
}
}  // namespace emulator::ex14

#include <two_loops.hpp>

using namespace emulator;
using emulator::ex14::Ring, emulator::ex14::STAGES, emulator::ex14::TILE_ROWS,
    emulator::ex14::TILE_BYTES;
using fa::simt::EventKind;

constexpr int CONSUMERS = 2, NUM_THREADS = 32 * (1 + CONSUMERS);
constexpr int ROOM = 16;  // for the tiles of a loop that does not end when it should
constexpr uint16_t NOT_ADDED = 0xFFFE;

// Each lane reads a piece of its own; all elements of tile t are t + 1.
struct Sums {
  std::vector<uint16_t>* seen;  // [add][thread]
  int count = 0;

  void add(uint32_t tile, FA_SITE) {
    const uint32_t piece = tile + lane_index() * (TILE_BYTES / 32);
    const uint16_t value = load_shared<uint16_t>(piece, line, file);
    if (count < ROOM) (*seen)[count++ * NUM_THREADS + thread_index()] = value;
  }
};

struct Seen {
  std::vector<uint16_t> tiles = std::vector<uint16_t>(ROOM * NUM_THREADS, NOT_ADDED);
  fa::simt::Report report;

  uint16_t at(int add, int thread) const { return tiles[add * NUM_THREADS + thread]; }
};

// produce(map, ring, num_tiles), consume(sums, ring, num_tiles)
template <class Produce, class Consume>
static Seen run(int num_tiles, uint64_t schedule, Produce produce, Consume consume) {
  fa::simt::Buffer<bf16> K(static_cast<size_t>(num_tiles) * TILE_ROWS * 64, "K");
  for (size_t i = 0; i < K.size(); ++i) K[i].bits = static_cast<uint16_t>(i / (TILE_ROWS * 64) + 1);
  const TensorMap map = make_tensor_map(K.data(), {64, num_tiles * TILE_ROWS}, {128},
                                        {64, TILE_ROWS}, Swizzle::bytes_128);
  Seen seen;
  fa::simt::Config config;
  config.events = true;
  config.schedule_seed = schedule;
  seen.report = exercise::run_block(
      NUM_THREADS, STAGES * (TILE_BYTES + 16),
      [&] {
        Ring ring;
        for (int stage = 0; stage < STAGES; ++stage) {
          ring.tile[stage] = dynamic_smem() + stage * TILE_BYTES;
          ring.full[stage] = dynamic_smem() + STAGES * TILE_BYTES + stage * 16;
          ring.empty[stage] = ring.full[stage] + 8;
        }
        if (thread_index() == 0) {
          for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(ring.full[stage], 1);
            mbarrier_init(ring.empty[stage], CONSUMERS);
          }
          fence_mbarrier_init();
        }
        block_sync();
        if (thread_index() == 0) produce(map, ring, num_tiles);
        if (thread_index() < 32) return;
        Sums sums{&seen.tiles};
        consume(sums, ring, num_tiles);
      },
      config);
  return seen;
}

// The loops as people write them: right as they stand here, and each mistake is a change to them.
struct Way {
  enum Parity {
    kRound,
    kRoundBefore,
    kOfTile,
    kOfTileBefore,
    kOfTwo,
    kOfTwoBefore,
    kZero,
    kOne,
    kNumber,
    kNumberBefore,
    kNumberMinusOne
  };
  enum Buffer { kOfThree, kOfTwoOnly, kFirst } buffer = kOfThree;
  Parity empty = kRoundBefore, full = kRound;
  enum Producer {
    kWaitExpectCopy,
    kNoWait,
    kWaitAtFull,  // full and empty exchanged
    kWaitFirst,   // only once, before the loop
    kNotInRoundZero,
    kCopyThenWait,  // the wait stands behind the copy
    kCopyOnly,
    kArriveOnly,  // without the bytes
    kExpectOnly,  // without the arrival
    kArrivesTwice,
    kReportsToEmpty,
    kCopyReportsToEmpty  // and the bytes are expected at full
  } producer = kWaitExpectCopy;
  enum Row { kRows, kTiles, kColumn, kBytes } row = kRows;
  int expected = TILE_BYTES;
  enum Consumer {
    kWaitAddArrive,
    kNoFullWait,
    kLaneWaits,       // lane 0 alone
    kArriveThenAdd,   // behind the wait
    kArriveThenWait,  // before it
    kNobodyArrives,
    kArrivesAtFull,
    kWaitsAtEmpty,
    kBothExchanged,
    kOneConsumerArrives
  } consumer = kWaitAddArrive;
  enum Arrival { kSyncAndLane, kLane, kAllLanes, kSyncBehind, kElected } arrival = kSyncAndLane;
  int more_produced = 0, more_consumed = 0;
  int empty_of = 0;  // the producer waits at the buffer that comes so many after its own
};

static int buffer_of(const Way& way, int tile) {
  return way.buffer == Way::kFirst ? 0 : tile % (way.buffer == Way::kOfTwoOnly ? 2 : STAGES);
}
static int parity_of(Way::Parity parity, const Way& way, int tile) {
  const int round = tile / (way.buffer == Way::kFirst       ? 1
                            : way.buffer == Way::kOfTwoOnly ? 2
                                                            : STAGES);
  switch (parity) {
    case Way::kRound:
      return round % 2;
    case Way::kRoundBefore:
      return (round + 1) % 2;
    case Way::kOfTile:
      return tile % 2;
    case Way::kOfTileBefore:
      return (tile + 1) % 2;
    case Way::kOfTwo:
      return tile / 2 % 2;
    case Way::kOfTwoBefore:
      return (tile / 2 + 1) % 2;
    case Way::kZero:
      return 0;
    case Way::kOne:
      return 1;
    case Way::kNumber:
      return round;
    case Way::kNumberBefore:
      return round + 1;
    case Way::kNumberMinusOne:
      return round - 1;
  }
  return 0;
}

static void produce_with_way(const Way& way, const TensorMap& map, const Ring& ring,
                             int num_tiles) {
  for (int tile = 0; tile < num_tiles + way.more_produced; ++tile) {
    const int buffer = buffer_of(way, tile), parity = parity_of(way.empty, way, tile);
    const uint32_t full = ring.full[buffer], empty = ring.empty[(buffer + way.empty_of) % STAGES];
    const uint32_t reports = way.producer == Way::kReportsToEmpty ? empty : full;
    const auto copy = [&] {
      const bool to_empty = reports == empty || way.producer == Way::kCopyReportsToEmpty;
      const int first = way.row == Way::kTiles    ? tile
                        : way.row == Way::kColumn ? 0
                        : way.row == Way::kBytes  ? tile * static_cast<int>(TILE_BYTES)
                                                  : tile * TILE_ROWS;
      tma_load_2d(ring.tile[buffer], map, way.row == Way::kColumn ? tile * TILE_ROWS : 0, first,
                  to_empty ? empty : full);
    };
    const auto expect = [&] { mbarrier_arrive_expect_tx(reports, way.expected); };
    switch (way.producer) {
      case Way::kNoWait:
        break;
      case Way::kWaitAtFull:
        ex14::mbarrier_wait(full, parity);
        break;
      case Way::kWaitFirst:
        if (tile == 0) ex14::mbarrier_wait(empty, parity);
        break;
      case Way::kNotInRoundZero:
        if (tile >= STAGES) ex14::mbarrier_wait(empty, parity);
        break;
      case Way::kCopyThenWait:
        break;
      default:
        ex14::mbarrier_wait(empty, parity);
    }
    switch (way.producer) {
      case Way::kCopyOnly:
        copy();
        break;
      case Way::kArriveOnly:
        mbarrier_arrive(full), copy();
        break;
      case Way::kExpectOnly:
        mbarrier_expect_tx(full, way.expected), copy();
        break;
      case Way::kArrivesTwice:
        expect(), copy(), mbarrier_arrive(full);
        break;
      case Way::kCopyThenWait:
        expect(), copy(), ex14::mbarrier_wait(empty, parity);
        break;
      default:
        expect(), copy();
    }
  }
}

static void consume_with_way(const Way& way, Sums& sums, const Ring& ring, int num_tiles) {
  for (int tile = 0; tile < num_tiles + way.more_consumed; ++tile) {
    const int buffer = buffer_of(way, tile), parity = parity_of(way.full, way, tile);
    const bool exchanged = way.consumer == Way::kBothExchanged;
    const bool at_full = exchanged || way.consumer == Way::kArrivesAtFull;
    const bool at_empty = exchanged || way.consumer == Way::kWaitsAtEmpty;
    const auto wait = [&] {
      if (way.consumer == Way::kNoFullWait) return;
      if (way.consumer == Way::kLaneWaits && lane_index() != 0) return;
      ex14::mbarrier_wait(at_empty ? ring.empty[buffer] : ring.full[buffer], parity);
    };
    const auto arrive = [&] {
      if (way.consumer == Way::kNobodyArrives) return;
      if (way.consumer == Way::kOneConsumerArrives && thread_index() >= 64) return;
      const uint32_t mbarrier = at_full ? ring.full[buffer] : ring.empty[buffer];
      if (way.arrival == Way::kSyncAndLane) warp_sync();
      const bool arrives = way.arrival == Way::kElected
                               ? elect_one()
                               : way.arrival == Way::kAllLanes || lane_index() == 0;
      if (arrives) mbarrier_arrive(mbarrier);
      if (way.arrival == Way::kSyncBehind) warp_sync();
    };
    if (way.consumer == Way::kArriveThenWait) arrive();
    wait();
    if (way.consumer == Way::kArriveThenAdd) arrive();
    sums.add(ring.tile[buffer]);
    if (way.consumer != Way::kArriveThenWait && way.consumer != Way::kArriveThenAdd) arrive();
  }
}

// The same under several orders of the warps, as which of them is late is chance.
struct Runs {
  std::set<std::string> kinds;  // of hazards
  std::string first;            // the hazards and the wrong tile of the first run that has some
  std::string lacking;          // what an mbarrier lacks, if nobody can go on
  bool wrong[ROOM] = {};        // of each add: did some lane see something else?
  std::string values;           // what was seen, where no hazard makes it chance
  std::set<uint32_t> buffers;   // that tiles came to
  int64_t copies = 0;
  bool no_parity = false;
  std::string order;  // of the first lines of the loops

  bool right() const { return first.empty(); }
  // All that a mistake must explain.
  std::string shown() const {
    std::string all = std::to_string(buffers.size()) + " buffers\n";
    for (const std::string& kind : kinds) all += kind + "\n";
    for (const bool is_wrong : wrong) all += is_wrong ? "x" : ".";
    if (kinds.empty()) return all + values;
    if (no_parity) all += "no parity\n";
    return all + std::to_string(copies) + " copies" + lacking + order;
  }
};

// Which of the two, `a` or `b`, does this warp do first? And how often `a`: never, once, more
// often.
static std::string order(const fa::simt::Report& report, int warp, EventKind a, EventKind b) {
  std::string first;
  int count = 0;
  for (const fa::simt::Event& event : report.events) {
    if (event.warp != warp || (event.kind != a && event.kind != b)) continue;
    if (first.empty()) first = fa::simt::event_name(event.kind);
    count += event.kind == a;
  }
  return "\n" + first + " " + std::to_string(std::min(count, 2));
}

// How often the producer waits: never, once, more often; and whether a wait or a copy is its last
// step. A wait in the first round is of no use, so it does not count. Does it wait at the mbarriers
// of the buffer that it fills next?
static std::string waits(const fa::simt::Report& report, int num_tiles) {
  if (num_tiles <= STAGES) return "";
  int count = 0, waited = -1;  // -1: not since the last copy
  bool other = false;
  EventKind last = EventKind::kTmaLoad;
  for (const fa::simt::Event& event : report.events) {
    const bool wait = event.kind == EventKind::kAwaiting;
    if (event.warp != 0 || (!wait && event.kind != EventKind::kTmaLoad)) continue;
    count += wait;
    last = event.kind;
    const auto stage = static_cast<int>(event.address / TILE_BYTES);
    other = other || (!wait && waited >= 0 && waited != stage);
    waited = wait ? (event.mbarrier - static_cast<int>(STAGES * TILE_BYTES)) / 16 : -1;
  }
  return "\n" + std::to_string(std::min(count, 2)) + " waits, last " + fa::simt::event_name(last) +
         (other ? ", at another buffer" : "");
}

static std::string name(int tile) {
  return tile == NOT_ADDED             ? "none"
         : tile == exercise::UNWRITTEN ? "NaN: no tile that has landed"
         : tile == 0                   ? "zero: no row of the map"
                                       : "tile " + std::to_string(tile - 1);
}

template <class Produce, class Consume>
static Runs run_all(int num_tiles, Produce produce, Consume consume) {
  Runs runs;
  ex14::no_parity = false;
  for (uint64_t schedule = 0; schedule < 4; ++schedule) {
    const Seen seen = run(num_tiles, schedule, produce, consume);
    std::string message;
    for (int add = 0; add < ROOM; ++add)
      for (int thread = 32; thread < NUM_THREADS; ++thread) {
        const int expected = add < num_tiles ? add + 1 : NOT_ADDED, got = seen.at(add, thread);
        if (got == expected) continue;
        if (message.empty())
          message = "add " + std::to_string(add) + " of lane " + std::to_string(thread % 32) +
                    ", consumer " + std::to_string(thread / 32 - 1) + ": expected " +
                    name(expected) + ", got " + name(got) + "\n";
        runs.wrong[add] = true;
      }
    for (const fa::simt::Event& event : seen.report.events)
      if (event.kind == EventKind::kTmaLoad) runs.buffers.insert(event.address);
    message = exercise::hazards(seen.report) + message;
    const size_t wanted = std::min(num_tiles, STAGES);
    if (message.empty() && runs.buffers.size() != wanted)
      message = "tiles came to " + std::to_string(runs.buffers.size()) + " buffers, expected " +
                std::to_string(wanted) + "\n";
    for (const uint16_t tile : seen.tiles) runs.values += std::to_string(tile) + " ";
    if (runs.first.empty()) runs.first = message;
    if (schedule == 0)
      runs.order = waits(seen.report, num_tiles) +
                   order(seen.report, 1, EventKind::kArriving, EventKind::kLoadShared);
    for (const fa::simt::Hazard& hazard : seen.report.hazards) {
      runs.kinds.insert(fa::simt::hazard_name(hazard.kind));
      const size_t begin = hazard.text.find("whose phase");
      if (schedule == 0 && begin != std::string::npos)
        runs.lacking += "\n" + hazard.text.substr(begin, 60);
    }
    runs.copies =
        std::max(runs.copies, seen.report.counters.tma_bytes / static_cast<int64_t>(TILE_BYTES));
  }
  runs.no_parity = ex14::no_parity;
  return runs;
}

static void check_loops(int num_tiles) {
  const Runs runs = run_all(
      num_tiles,
      [](const TensorMap& map, const Ring& ring, int tiles) { ex14::produce(map, ring, tiles); },
      [](Sums& sums, const Ring& ring, int tiles) { ex14::consume(sums, ring, tiles); });
  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    const Runs wrong = run_all(
        num_tiles,
        [&](const TensorMap& map, const Ring& ring, int tiles) {
          produce_with_way(way, map, ring, tiles);
        },
        [&](Sums& sums, const Ring& ring, int tiles) { consume_with_way(way, sums, ring, tiles); });
    looks.push_back({name, wrong.shown(), explanation});
  };
  using W = Way;
  mistake("producer-starts-with-zero",
          "the producer waits for this round's phase of empty: nobody has read anything yet, and "
          "the ring stands still. It needs the phase of the round before, in round 0 parity 1",
          {.empty = W::kRound});
  mistake("producer-waits-a-round-late",
          "in round 1 the producer waits for the phase of empty that was complete from the "
          "beginning; the consumers' arrivals of round 0 end the phase of parity 0",
          {.empty = W::kRound, .producer = W::kNotInRoundZero});
  const char* const another =
      "the producer waits at empty of another buffer than the one that it fills";
  for (const W::Producer producer : {W::kWaitExpectCopy, W::kNotInRoundZero})
    for (const int other : {1, 2})
      mistake("waits-for-another-buffer", another, {.producer = producer, .empty_of = other});
  mistake("consumer-starts-with-one",
          "the consumers wait for the phase of full of the round before, which is complete: they "
          "read before the tile has come",
          {.full = W::kRoundBefore});
  mistake("parities-exchanged",
          "the two parities are exchanged: the consumers wait for this round's phase, the producer "
          "for that of the round before",
          {.empty = W::kRound, .full = W::kRoundBefore});
  const char* const tile =
      "the parity flips with each tile; a buffer's phase ends once a round, and the round is tile "
      "/ 3";
  mistake("parity-of-the-tile", tile, {.empty = W::kOfTileBefore, .full = W::kOfTile});
  mistake("parity-of-the-tile", tile, {.full = W::kOfTile});
  mistake("parity-of-the-tile", tile, {.empty = W::kOfTileBefore});
  const char* const two =
      "the parity is that of a ring of two buffers, tile / 2; here the round is tile / 3";
  mistake("parity-of-two-buffers", two, {.empty = W::kOfTwoBefore, .full = W::kOfTwo});
  mistake("parity-of-two-buffers", two, {.full = W::kOfTwo});
  mistake("parity-of-two-buffers", two, {.empty = W::kOfTwoBefore});
  mistake("two-buffers-of-three",
          "tiles come to two of the three buffers, and the producer is never two tiles ahead",
          {.buffer = W::kOfTwoOnly});
  mistake("one-buffer-of-three", "all tiles come to one buffer, and the producer waits for each",
          {.buffer = W::kFirst});
  const char* const same =
      "the parity is the same in each round; a phase ends once a round, so it flips with each";
  mistake("same-parity", same, {.empty = W::kOne, .full = W::kZero});
  mistake("same-parity", same, {.full = W::kZero});
  mistake("same-parity", same, {.empty = W::kOne});
  const char* const number = "this is the number of the round; a parity is its last bit, 0 or 1";
  mistake("round-for-parity", number, {.empty = W::kNumberBefore, .full = W::kNumber});
  mistake("round-for-parity", number, {.empty = W::kNumberMinusOne, .full = W::kNumber});
  mistake("round-for-parity", number, {.full = W::kNumber});
  mistake("round-for-parity", number, {.empty = W::kNumberBefore});
  mistake("round-for-parity", number, {.empty = W::kNumberMinusOne});
  const char* const no_empty =
      "the producer overwrites a buffer without knowing that all consumers have read it";
  mistake("producer-never-waits", no_empty, {.producer = W::kNoWait});
  mistake("producer-never-waits", no_empty, {.producer = W::kWaitFirst});
  mistake("producer-waits-behind-the-copy",
          "the producer waits behind the copy; it must know that the buffer is empty before it "
          "asks for the next tile",
          {.producer = W::kCopyThenWait});
  mistake("consumers-never-wait", "the consumers read without knowing that the tile has come",
          {.consumer = W::kNoFullWait});
  mistake("one-lane-waits",
          "lane 0 waits for its warp, and the others read without knowing that the tile has come; "
          "a wait speaks for the thread that waits",
          {.consumer = W::kLaneWaits});
  const char* const exchanged =
      "full and empty are exchanged: the producer waits at empty and reports to full, the "
      "consumers wait at full and arrive at empty";
  mistake("full-and-empty-exchanged", exchanged, {.consumer = W::kBothExchanged});
  mistake("full-and-empty-exchanged", exchanged, {.consumer = W::kArrivesAtFull});
  mistake("full-and-empty-exchanged", exchanged, {.consumer = W::kWaitsAtEmpty});
  mistake("full-and-empty-exchanged", exchanged, {.producer = W::kWaitAtFull});
  mistake("full-and-empty-exchanged", exchanged, {.producer = W::kReportsToEmpty});
  mistake("full-and-empty-exchanged", exchanged, {.producer = W::kCopyReportsToEmpty});
  mistake("full-and-empty-exchanged", exchanged,
          {.producer = W::kReportsToEmpty, .consumer = W::kBothExchanged});
  const char* const early =
      "the consumers arrive before they have read: the producer may overwrite the tile meanwhile";
  for (const W::Arrival arrival : {W::kSyncAndLane, W::kLane, W::kSyncBehind, W::kElected}) {
    mistake("arrives-before-the-read", early, {.consumer = W::kArriveThenAdd, .arrival = arrival});
    mistake("arrives-before-the-read", early, {.consumer = W::kArriveThenWait, .arrival = arrival});
  }
  const char* const lane =
      "lane 0 arrives for its warp, but knows only of its own read: a warp_sync must stand between "
      "the reads of all lanes and the arrival";
  mistake("warp-sync-missing", lane, {.arrival = W::kLane});
  mistake("warp-sync-missing", lane, {.arrival = W::kSyncBehind});
  mistake("warp-sync-missing", lane, {.arrival = W::kElected});
  mistake("all-lanes-arrive",
          "all 32 lanes arrive, and a phase of empty takes one arrival of each consumer: phases "
          "end too early, and run ahead",
          {.arrival = W::kAllLanes});
  mistake("nobody-arrives", "no consumer arrives at empty: the producer waits for ever in round 1",
          {.consumer = W::kNobodyArrives});
  mistake("one-consumer-arrives",
          "one consumer arrives, and a phase of empty takes an arrival of each",
          {.consumer = W::kOneConsumerArrives});
  mistake("nothing-expected",
          "the producer copies, but never arrives at full: its phase does not end",
          {.producer = W::kCopyOnly});
  mistake("bytes-not-expected",
          "the producer arrives at full without saying how many bytes will come: the phase ends "
          "before they have",
          {.producer = W::kArriveOnly});
  mistake("arrival-missing",
          "the producer says how many bytes will come and does not arrive: the phase does not end",
          {.producer = W::kExpectOnly});
  mistake("arrives-twice",
          "the producer arrives at full twice; expecting with arrive_expect_tx is the arrival",
          {.producer = W::kArrivesTwice});
  mistake("half-expected", "half of the bytes were expected, as if they were elements",
          {.expected = TILE_BYTES / 2});
  mistake("one-row-expected", "the bytes of one row were expected; a tile has TILE_ROWS of them",
          {.expected = TILE_BYTES / TILE_ROWS});
  mistake("tile-for-row", "the coordinate is the tile's number; it is the first row's",
          {.row = W::kTiles});
  mistake("column-for-row",
          "the tile's first row was given as a column; the column is 0, the row comes after it",
          {.row = W::kColumn});
  mistake("box-behind-the-end",
          "the box lies behind the end of the map, and zeros come: the tile's first row was given "
          "in bytes or elements",
          {.row = W::kBytes});
  mistake("last-tile-missing", "a loop ends one turn too early: the last tile is left out",
          {.more_produced = -1, .more_consumed = -1});
  mistake("last-tile-missing", "a loop ends one turn too early: the last tile is left out",
          {.more_produced = -1});
  mistake("last-tile-missing", "a loop ends one turn too early: the last tile is left out",
          {.more_consumed = -1});
  mistake("one-turn-too-many", "a loop takes one turn more than there are tiles: < and not <=",
          {.more_produced = 1, .more_consumed = 1});
  mistake("one-turn-too-many",
          "a loop takes one turn more than there are tiles: < and not <=", {.more_produced = 1});
  mistake("one-turn-too-many",
          "a loop takes one turn more than there are tiles: < and not <=", {.more_consumed = 1});
  exercise::check_shown(runs.right(), runs.first, runs.shown(), looks);
}

TEST_CASE("one tile") { check_loops(1); }
TEST_CASE("one round, three tiles") { check_loops(3); }
TEST_CASE("two rounds and one tile") { check_loops(7); }
TEST_CASE("three rounds") { check_loops(9); }
