#include <doctest/doctest.h>

#include <stream_tiles.hpp>

#include "exercises/support/tile_sums.hpp"

using fa::simt::EventKind;

using namespace emulator;
using namespace emulator::debugging;

// The repaired loop, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  void stream_tiles(const float* tiles, float* sums, int num_tiles) const {
    const auto chunk = [&](int tile, int thread) {
      return dynamic_smem() + tile % is.integer("buffers", 2) * TILE_BYTES + thread * CHUNK_BYTES;
    };
    const auto load_tile = [&](int tile) {
      if (tile < num_tiles) {
        cp_async_16(chunk(tile, thread_index()), tiles + (tile * NUM_THREADS + thread_index()) * 4,
                    CHUNK_BYTES);
      }
      cp_async_commit();
    };
    float sum = 0;
    if (!is("not-ahead")) load_tile(0);
    for (int tile = 0; tile < num_tiles; ++tile) {
      if (is("barrier-before-load")) block_sync();
      if (is("not-ahead")) load_tile(tile);
      if (is("before-wait")) load_tile(tile + 1);
      if (!is("no-wait")) exercise::wait_for_groups(is.integer("groups", 0));
      if (is("before-barrier")) load_tile(tile + 1);
      if (is("warp_sync")) warp_sync();
      if (!is.any("barrier-before-load", "no-barrier")) block_sync();
      if (!is.any("not-ahead", "before-wait", "before-barrier", "behind-sum")) load_tile(tile + 1);
      sum += load_shared<float>(chunk(tile, NUM_THREADS - 1 - thread_index()));
      if (is("both-barriers")) block_sync();
      if (is("behind-sum")) load_tile(tile + 1);
    }
    store_global(sums + thread_index(), sum);
  }
};
static Way way;
static void stream_with_way(const float* tiles, float* sums, int num_tiles) {
  way.stream_tiles(tiles, sums, num_tiles);
}

static const exercise::Table MISTAKES(R"(
longer-wait: before-wait
  waiting longer does not help: it is the other warp's reading that must be over, not a copy
load-before-barrier: before-barrier
  the load comes after the wait but before the barrier: the other warp may be reading the tile that
  it overwrites
load-before-barrier: before-barrier groups=1
  the load comes after the wait but before the barrier: the other warp may be reading the tile that
  it overwrites. And at the wait there is one group fewer in flight
nothing-in-flight: not-ahead; behind-sum; {not-ahead,before-wait,behind-sum} both-barriers
  right, but the copy of the next tile starts only after the wait for the current one, so that the
  second buffer gains nothing
wait-not-recounted: groups=1
  after the barrier there is one group fewer in flight at the wait, so that its N is one less
second-barrier: before-wait groups=1 both-barriers; both-barriers
  right, but with two barriers per tile. With the load after the first barrier the second has
  nothing to order
landing-barrier-missing: before-wait groups={0,1} barrier-before-load
  there is no barrier between the wait and the sum, so that a thread cannot know that the other
  warp's copies have landed. The barrier at the top or at the end of the loop only keeps the buffers
  apart
three-buffers: before-wait groups=1 buffers=3
  there is room for two buffers. A third would help, and would cost a third more memory
no-barrier: before-wait groups=1 no-barrier; no-barrier
  there is no barrier: each warp reads what the other has copied
warp-for-block: warp_sync no-barrier; warp_sync before-wait groups=1 no-barrier
  warp_sync orders the lanes of one warp. The chunk comes from the other
wait-too-few: before-wait groups=2
  the N of the wait lets this tile itself stay in flight
wait-too-few: no-wait; no-wait before-wait
  nothing waits for the tile that is added
)");

// Warp 0's run, with the copies in flight at each sum, and the barriers.
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
  INFO(flights.text);
  exercise::check_shown(message.empty(), message, shown(seen, num_tiles),
                        exercise::looks<Way>(MISTAKES, [&](const Way& changed) {
                          way = changed;
                          return shown(run(stream_with_way), num_tiles);
                        }));
}

TEST_CASE("five tiles") { check_stream(5, 0); }
TEST_CASE("other orders of the threads") {
  for (uint64_t schedule = 1; schedule <= 3; ++schedule) check_stream(6, schedule);
}
