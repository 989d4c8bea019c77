#include <doctest/doctest.h>

#include <stream_tiles.hpp>

#include "exercises/support/tile_sums.hpp"

using fa::simt::EventKind;

using namespace emulator;
using namespace emulator::debugging;

// The repaired loop, and each mistake as a change to it.
struct Way {
  enum Load {
    kBeforeWait,
    kBeforeBarrier,
    kBehindBarrier,
    kBehindSum,
    kNotAhead
  } load = kBehindBarrier;
  int wait = 0;  // -1: none
  enum Barrier { kBehindWait, kBeforeLoad, kBoth, kMissing } barrier = kBehindWait;
  bool warp_sync = false;
  int buffers = 2;
};
static Way way;

static void stream_with_way(const float* tiles, float* sums, int num_tiles) {
  const auto chunk = [](int tile, int thread) {
    return dynamic_smem() + tile % way.buffers * TILE_BYTES + thread * CHUNK_BYTES;
  };
  const auto load_tile = [&](int tile) {
    if (tile < num_tiles) {
      cp_async_16(chunk(tile, thread_index()), tiles + (tile * NUM_THREADS + thread_index()) * 4,
                  CHUNK_BYTES);
    }
    cp_async_commit();
  };
  float sum = 0;
  if (way.load != Way::kNotAhead) load_tile(0);
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (way.barrier == Way::kBeforeLoad) block_sync();
    if (way.load == Way::kNotAhead) load_tile(tile);
    if (way.load == Way::kBeforeWait) load_tile(tile + 1);
    if (way.wait >= 0) exercise::wait_for_groups(way.wait);
    if (way.load == Way::kBeforeBarrier) load_tile(tile + 1);
    if (way.warp_sync) warp_sync();
    if (way.barrier == Way::kBehindWait || way.barrier == Way::kBoth) block_sync();
    if (way.load == Way::kBehindBarrier) load_tile(tile + 1);
    sum += load_shared<float>(chunk(tile, NUM_THREADS - 1 - thread_index()));
    if (way.barrier == Way::kBoth) block_sync();
    if (way.load == Way::kBehindSum) load_tile(tile + 1);
  }
  store_global(sums + thread_index(), sum);
}

// Warp 0's run: the copies in flight at each sum, and the barriers.
struct Flights {
  std::string text;
  int overlaps = 0, barriers = 0;
  bool warp_sync = false;
  bool copy_before_barrier = false;  // between a wait and the barrier after it

  explicit Flights(const fa::simt::Report& report) {
    int issued = 0, landed = 0, sum = 0;
    bool waited = false;
    for (const auto& event : report.events) {
      if (event.warp != 0) continue;
      issued += event.kind == EventKind::kCopyIssue;
      landed += event.kind == EventKind::kLand && event.bytes > 0;
      barriers += event.kind == EventKind::kBarrier;
      warp_sync |= event.kind == EventKind::kWarpSync;
      copy_before_barrier |= waited && event.kind == EventKind::kCopyIssue;
      waited = (waited || event.kind == EventKind::kWait) && event.kind != EventKind::kBarrier;
      if (event.kind != EventKind::kLoadShared) continue;
      text += "  sum of tile " + std::to_string(sum++) + ": " + std::to_string(issued - landed) +
              " in flight\n";
      overlaps += issued > landed;
    }
  }
};

// All that a mistake must explain.
static std::string shown(const exercise::TileSums& seen, int num_tiles) {
  const Flights flights(seen.report);
  std::string all = exercise::hazard_kinds(seen.report) + flights.text +
                    (flights.warp_sync ? "warp " : "") +
                    (flights.copy_before_barrier ? "copy before barrier " : "");
  if (seen.report.hazards.empty()) {
    all += std::to_string(std::min(flights.barriers / num_tiles, 2));
    for (const double sum : seen.got) all += " " + exercise::text(sum);
    return all;
  }
  return all + exercise::synchronization(seen.report, num_tiles, 1, 2);
}

static void check_stream(int num_tiles, uint64_t schedule) {
  const auto run = [&](auto kernel) {
    return exercise::run_tile_sums(kernel, NUM_THREADS, 2 * TILE_BYTES, num_tiles, schedule);
  };
  const exercise::TileSums seen = run(stream_tiles);
  const Flights flights(seen.report);
  std::string message = exercise::hazards(seen.report);
  if (message.empty()) {
    message = exercise::difference({"sums", 0, 0}, seen.got, seen.expected);
    if (flights.overlaps != num_tiles - 1)
      message += "the next tile should be in flight during every sum but the last\n";
    if (flights.barriers != num_tiles)
      message += std::to_string(flights.barriers) + " barriers for " + std::to_string(num_tiles) +
                 " tiles; one is enough\n";
  }
  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, const char* explanation, const Way& changed) {
    way = changed;
    looks.push_back({name, shown(run(stream_with_way), num_tiles), explanation});
  };
  mistake(
      "longer-wait",
      "waiting longer does not help: it is the other warp's reading that must be over, not a copy",
      {.load = Way::kBeforeWait});
  mistake("load-before-barrier",
          "the load comes after the wait but before the barrier: the other warp may be reading the "
          "tile that it overwrites",
          {.load = Way::kBeforeBarrier});
  mistake("load-before-barrier",
          "the load comes after the wait but before the barrier: the other warp may be reading the "
          "tile that it overwrites; and at the wait there is one group fewer in flight",
          {.load = Way::kBeforeBarrier, .wait = 1});
  const char* const nothing =
      "right, but the copy of the next tile starts only after the wait for the current one, so "
      "that the second buffer gains nothing";
  mistake("nothing-in-flight", nothing, {.load = Way::kNotAhead});
  mistake("nothing-in-flight", nothing, {.load = Way::kBehindSum});
  mistake("nothing-in-flight", nothing, {.load = Way::kNotAhead, .barrier = Way::kBoth});
  mistake("nothing-in-flight", nothing, {.load = Way::kBeforeWait, .barrier = Way::kBoth});
  mistake("nothing-in-flight", nothing, {.load = Way::kBehindSum, .barrier = Way::kBoth});
  mistake(
      "wait-not-recounted",
      "after the barrier there is one group fewer in flight at the wait, so that its N is one less",
      {.wait = 1});
  mistake("second-barrier",
          "right, but with two barriers per tile; with the load after the first barrier the second "
          "has nothing to order",
          {.load = Way::kBeforeWait, .wait = 1, .barrier = Way::kBoth});
  mistake("second-barrier",
          "right, but with two barriers per tile; with the load after the first barrier the second "
          "has nothing to order",
          {.barrier = Way::kBoth});
  const char* const landing =
      "there is no barrier between the wait and the sum, so that a thread cannot know that the "
      "other warp's copies have landed; the barrier at the top or at the end of the loop only "
      "keeps the buffers apart";
  for (const int wait : {0, 1})
    mistake("landing-barrier-missing", landing,
            {.load = Way::kBeforeWait, .wait = wait, .barrier = Way::kBeforeLoad});
  mistake("three-buffers",
          "there is room for two buffers; a third would help, and would cost a third more memory",
          {.load = Way::kBeforeWait, .wait = 1, .buffers = 3});
  mistake("no-barrier", "there is no barrier: each warp reads what the other has copied",
          {.load = Way::kBeforeWait, .wait = 1, .barrier = Way::kMissing});
  mistake("no-barrier", "there is no barrier: each warp reads what the other has copied",
          {.barrier = Way::kMissing});
  mistake("warp-for-block",
          "warp_sync orders the lanes of one warp; the chunk comes from the other",
          {.barrier = Way::kMissing, .warp_sync = true});
  mistake("warp-for-block",
          "warp_sync orders the lanes of one warp; the chunk comes from the other",
          {.load = Way::kBeforeWait, .wait = 1, .barrier = Way::kMissing, .warp_sync = true});
  mistake("wait-too-few", "the N of the wait lets this tile itself stay in flight",
          {.load = Way::kBeforeWait, .wait = 2});
  mistake("wait-too-few", "nothing waits for the tile that is added", {.wait = -1});
  mistake("wait-too-few", "nothing waits for the tile that is added",
          {.load = Way::kBeforeWait, .wait = -1});
  INFO(flights.text);
  exercise::check_shown(message.empty(), message, shown(seen, num_tiles), looks);
}

TEST_CASE("five tiles") { check_stream(5, 0); }
TEST_CASE("other orders of the threads") {
  for (uint64_t schedule = 1; schedule <= 3; ++schedule) check_stream(6, schedule);
}
