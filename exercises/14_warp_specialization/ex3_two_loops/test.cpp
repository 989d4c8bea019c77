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

using exercise::Changes;
using namespace emulator;
using emulator::ex14::Ring, emulator::ex14::STAGES, emulator::ex14::TILE_ROWS,
    emulator::ex14::TILE_BYTES;
using fa::simt::EventKind;

constexpr int CONSUMERS = 2, NUM_THREADS = 32 * (1 + CONSUMERS);
constexpr int ROOM = 16;  // for the tiles of a loop that does not end when it should
constexpr uint16_t NOT_ADDED = 0xFFFE;

// Each lane reads a different piece, and all elements of tile t are t + 1.
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

static const exercise::Table MISTAKES(R"(
producer-starts-with-zero: empty-other
  the producer waits for this pass's phase of empty. No consumer has read anything yet, so that no
  thread continues. It needs the phase of the previous pass: parity 1 in pass 0
producer-waits-a-round-late: empty-other not-in-round-zero
  in pass 1 the producer waits for the phase of empty that was complete from the beginning. The
  consumers' arrivals of pass 0 end the phase of parity 0
waits-for-another-buffer: {,not-in-round-zero }empty-of-buffer={1,2}
  the producer waits at empty of another buffer than the one that it fills
consumer-starts-with-one: full-other
  the consumers wait for the phase of full of the previous pass, which is complete, so that they
  read before the tile has landed
parities-exchanged: empty-other full-other
  the two parities are exchanged: the consumers need this pass's phase, and the producer that of the
  previous pass
parity-of-the-tile: {,empty-of-the-tile }full-of-the-tile; empty-of-the-tile
  the parity flips with each tile. A buffer's phase ends once per pass, and the pass is tile / 3
parity-of-two-buffers: {,empty-of-two-buffers }full-of-two-buffers; empty-of-two-buffers
  the parity is that of a ring of two buffers, tile / 2. Here the pass is tile / 3
two-buffers-of-three
  tiles come to two of the three buffers, and the producer is never two tiles ahead
one-buffer-of-three
  all tiles come to one buffer, and the producer waits for each
same-parity: {,empty-same }full-same; empty-same
  the parity is the same in each pass. A phase ends once per pass, so that the parity flips with
  each pass
round-for-parity: {,empty-round ,empty-round-minus-one }full-round; empty-round{,-minus-one}
  this is the number of the pass. A parity is its last bit, 0 or 1
producer-never-waits: no-wait; wait-first
  the producer overwrites a buffer without knowing that all consumers have read it
producer-waits-behind-the-copy
  the producer waits after the copy. It must know that the buffer is empty before it issues the copy
  of the next tile
consumers-never-wait
  the consumers read without knowing that the tile has come
one-lane-waits
  only lane 0 waits, and the others read without knowing that the tile has landed. A wait covers
  only the thread that waits
full-and-empty-exchanged: {,reports-to-empty }both-exchanged; arrives-at-full; waits-at-empty;
    wait-at-full; reports-to-empty; copy-reports-to-empty
  full and empty are exchanged: the producer waits at empty and reports to full, the consumers
  wait at full and arrive at empty
arrives-before-the-read: {arrive-then-add,arrive-then-wait} {,lane,sync-behind,elected}
  the consumers arrive before they have read: the producer may overwrite the tile meanwhile
warp-sync-missing: lane; sync-behind; elected
  lane 0 arrives for its warp, but knows only about its own read. Put a warp_sync between the reads
  of all lanes and the arrival
all-lanes-arrive
  all 32 lanes arrive, and a phase of empty takes one arrival of each consumer: phases end too
  early, and run ahead
nobody-arrives
  no consumer arrives at empty, so that the producer waits forever in pass 1
one-consumer-arrives
  one consumer arrives, and a phase of empty takes an arrival of each
nothing-expected
  the producer copies, but never arrives at full: its phase does not end
bytes-not-expected
  the producer arrives at full without saying how many bytes will come: the phase ends before they
  have
arrival-missing
  the producer says how many bytes will come and does not arrive: the phase does not end
arrives-twice
  the producer arrives at full twice. arrive_expect_tx already arrives
half-expected
  half of the bytes were expected, as if they were elements
one-row-expected
  the bytes of one row were expected. A tile has TILE_ROWS of them
tile-for-row
  the coordinate is the tile's number. It should be that of the first row
column-for-row
  the tile's first row was given as a column. The column is 0, the row comes after it
box-behind-the-end
  the box is past the end of the map, where the engine writes zeros. The tile's first row was given
  in bytes or elements
last-tile-missing: more-produced=-1 more-consumed=-1; more-produced=-1; more-consumed=-1
  a loop ends one iteration too early, so that the last tile is left out
one-turn-too-many: more-produced=1 more-consumed=1; more-produced=1; more-consumed=1
  a loop has one iteration more than there are tiles: < and not <=
)");

// The right loops, and each mistake as a change to them.
static int buffer_of(const Changes& is, int tile) {
  return is("one-buffer-of-three") ? 0 : tile % (is("two-buffers-of-three") ? 2 : STAGES);
}
// The parity for which a loop waits, where the producer waits at an empty mbarrier, for that of the
// round before.
static int parity_of(const Changes& is, bool at_empty, int tile) {
  const auto made = [&](const char* empty, const char* full) {
    return is(at_empty ? empty : full);
  };
  const int round = tile / (is("one-buffer-of-three")    ? 1
                            : is("two-buffers-of-three") ? 2
                                                         : STAGES);
  if (made("empty-round-minus-one", "full-round-minus-one")) return round - 1;
  if (made("empty-round", "full-round")) return round + at_empty;
  if (made("empty-same", "full-same")) return at_empty;
  if (made("empty-of-the-tile", "full-of-the-tile")) return (tile + at_empty) % 2;
  if (made("empty-of-two-buffers", "full-of-two-buffers")) return (tile / 2 + at_empty) % 2;
  return (round + (at_empty != made("empty-other", "full-other"))) % 2;
}

static void produce_with(const Changes& is, const TensorMap& map, const Ring& ring, int num_tiles) {
  for (int tile = 0; tile < num_tiles + is.integer("more-produced", 0); ++tile) {
    const int buffer = buffer_of(is, tile), parity = parity_of(is, true, tile);
    const uint32_t full = ring.full[buffer],
                   empty = ring.empty[(buffer + is.integer("empty-of-buffer", 0)) % STAGES];
    const uint32_t reports = is("reports-to-empty") ? empty : full;
    const uint32_t bytes = is("half-expected")      ? TILE_BYTES / 2
                           : is("one-row-expected") ? TILE_BYTES / TILE_ROWS
                                                    : TILE_BYTES;
    const auto wait = [&] { ex14::mbarrier_wait(is("wait-at-full") ? full : empty, parity); };
    const bool late = is("producer-waits-behind-the-copy");
    if (!late && !is("no-wait") && !(is("wait-first") && tile > 0) &&
        !(is("not-in-round-zero") && tile < STAGES))
      wait();
    if (is("bytes-not-expected")) mbarrier_arrive(full);
    if (is("arrival-missing")) mbarrier_expect_tx(full, bytes);
    if (!is.any("nothing-expected", "bytes-not-expected", "arrival-missing"))
      mbarrier_arrive_expect_tx(reports, bytes);
    const int row = is("tile-for-row")         ? tile
                    : is("column-for-row")     ? 0
                    : is("box-behind-the-end") ? tile * static_cast<int>(TILE_BYTES)
                                               : tile * TILE_ROWS;
    tma_load_2d(ring.tile[buffer], map, is("column-for-row") ? tile * TILE_ROWS : 0, row,
                is("copy-reports-to-empty") ? empty : reports);
    if (is("arrives-twice")) mbarrier_arrive(full);
    if (late) wait();
  }
}

static void consume_with(const Changes& is, Sums& sums, const Ring& ring, int num_tiles) {
  for (int tile = 0; tile < num_tiles + is.integer("more-consumed", 0); ++tile) {
    const int buffer = buffer_of(is, tile), parity = parity_of(is, false, tile);
    const bool exchanged = is("both-exchanged");
    const bool at_full = exchanged || is("arrives-at-full");
    const bool at_empty = exchanged || is("waits-at-empty");
    const auto wait = [&] {
      if (is("consumers-never-wait")) return;
      if (is("one-lane-waits") && lane_index() != 0) return;
      ex14::mbarrier_wait(at_empty ? ring.empty[buffer] : ring.full[buffer], parity);
    };
    const auto arrive = [&] {
      if (is("nobody-arrives")) return;
      if (is("one-consumer-arrives") && thread_index() >= 64) return;
      const uint32_t mbarrier = at_full ? ring.full[buffer] : ring.empty[buffer];
      if (!is.any("lane", "all-lanes-arrive", "sync-behind", "elected")) warp_sync();
      const bool arrives =
          is("elected") ? elect_one() : is("all-lanes-arrive") || lane_index() == 0;
      if (arrives) mbarrier_arrive(mbarrier);
      if (is("sync-behind")) warp_sync();
    };
    if (is("arrive-then-wait")) arrive();
    wait();
    if (is("arrive-then-add")) arrive();
    sums.add(ring.tile[buffer]);
    if (!is.any("arrive-then-wait", "arrive-then-add")) arrive();
  }
}

// The same under several orders of the warps, as which of them is late is chance.
struct Runs {
  std::set<std::string> kinds;  // kinds of hazards
  std::string first;            // the hazards and the wrong tile of the first run that has some
  std::string lacking;          // what is missing at an mbarrier, if no thread can continue
  bool wrong[ROOM] = {};        // for each add, true if some lane saw something else
  std::string values;           // what was seen, where no hazard makes it chance
  std::set<uint32_t> buffers;   // that tiles came to
  int64_t copies = 0;
  bool no_parity = false;
  std::string order;  // order of the first lines of the loops

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

// Returns which of `a` and `b` this warp does first, and how many times `a`: 0, 1 or
// more.
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

// Returns how many times the producer waits, which is 0, 1 or more, and whether a wait or a copy is
// its last step. A wait in the first round is of no use, so it does not count. Does it wait at the
// mbarriers of the buffer that it fills next?
static std::string waits(const fa::simt::Report& report, int num_tiles) {
  if (num_tiles <= STAGES) return "";
  int count = 0, waited = -1;  // -1 if not since the last copy
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
    runs.values += exercise::bytes(seen.tiles);
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
      num_tiles, [](auto&&... args) { ex14::produce(args...); },
      [](auto&&... args) { ex14::consume(args...); });
  const auto looks = exercise::looks(MISTAKES, [&](const Changes& is) {
    return run_all(
               num_tiles, [&](auto&&... args) { produce_with(is, args...); },
               [&](auto&&... args) { consume_with(is, args...); })
        .shown();
  });
  exercise::check_shown(runs.right(), runs.first, runs.shown(), looks);
}

TEST_CASE("one tile") { check_loops(1); }
TEST_CASE("one round, three tiles") { check_loops(3); }
TEST_CASE("two rounds and one tile") { check_loops(7); }
TEST_CASE("three rounds") { check_loops(9); }
