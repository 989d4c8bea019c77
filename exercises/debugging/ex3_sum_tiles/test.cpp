#include <doctest/doctest.h>

#include <sum_tiles.hpp>

#include "exercises/support/tile_sums.hpp"

using fa::simt::EventKind;

using namespace emulator;
using namespace emulator::debugging;

// The repaired loop, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  void wait() const {
    if (is("no-wait") || (is("one-warp") && warp_index() != 0) ||
        (is("one-thread") && thread_index() != 0))
      return;
    exercise::wait_for_groups(is.integer("groups", 0));
  }
  void sum_tiles(const float* tiles, float* sums, int num_tiles) const {
    const uint32_t mine = dynamic_smem() + thread_index() * CHUNK_BYTES;
    const uint32_t theirs = dynamic_smem() + (NUM_THREADS - 1 - thread_index()) * CHUNK_BYTES;
    float sum = 0;
    for (int tile = 0; tile < num_tiles; ++tile) {
      if (is("wait-before-copy")) wait();
      cp_async_16(mine, tiles + (tile * NUM_THREADS + thread_index()) * 4, CHUNK_BYTES);
      if (is("wait-before-commit")) wait();
      cp_async_commit();
      if (is.any("barrier-before-wait", "both-barriers")) block_sync();
      if (!is.any("wait-before-copy", "wait-before-commit", "wait-behind-the-sum")) wait();
      if (is("warp_sync")) warp_sync();
      if (!is.any("barrier-before-wait", "no-landing-barrier")) block_sync();
      sum += load_shared<float>(is("own-chunk") ? mine : theirs);
      if (is("wait-behind-the-sum")) wait();
      if (!is("no-last-barrier")) block_sync();
    }
    store_global(sums + thread_index(), sum);
  }
};
static Way way;
static void sums_with_way(const float* tiles, float* sums, int num_tiles) {
  way.sum_tiles(tiles, sums, num_tiles);
}

static const exercise::Table MISTAKES(R"(
warp-for-block: warp_sync barrier-before-wait; warp_sync no-landing-barrier
  warp_sync orders the lanes of one warp. The chunk that is read comes from the other warp
one-barrier: no-last-barrier; no-last-barrier both-barriers
  the barrier after the sum is missing, so that the next tile overwrites the data that the other warp
  still reads
both-barriers-early: barrier-before-wait no-last-barrier
  the barriers come before the wait. A barrier after the wait must show that the other threads'
  copies have landed
one-warp-waits: one-warp; one-warp both-barriers; {one-warp,one-thread} barrier-before-wait;
    one-thread
  only the threads that wait know that their copies have landed. Each must wait for its own
wait-behind-the-sum
  every thread waits after it has read. Wait, barrier, then the sum
no-wait
  no thread waits: a barrier orders threads, not the copies that are in flight
wait-too-few: groups=1
  cp_async_wait<1> lets the youngest group stay in flight, and that is this tile's
wait-before-commit: wait-before-{commit,copy}; wait-before-{commit,copy} barrier-before-wait;
    wait-before-{commit,copy} both-barriers
  the wait comes before the commit: this tile's copies are in no group yet, so that it waits for
  earlier groups
no-barrier: no-landing-barrier no-last-barrier
  there is no barrier, and the chunk that is read was copied by the other warp
landing-barrier-missing: no-landing-barrier
  there is no barrier between the wait and the sum. A barrier after the sum is too late
own-chunk
  each thread adds its own chunk: no race, and another sum. Thread t adds that of thread 63 - t
)");

// All that a mistake must explain. Without a hazard a kernel may wait as it likes.
static std::string shown(const exercise::TileSums& seen, int num_tiles) {
  std::string all = exercise::hazard_kinds(seen.report);
  if (all.empty()) {
    for (const double sum : seen.got) all += exercise::text(sum) + " ";
    return all;
  }
  bool warp_sync = false, both_wait = false, committed = false, wait_first = false;
  for (const auto& event : seen.report.events) {
    warp_sync |= event.kind == EventKind::kWarpSync;
    both_wait |= event.kind == EventKind::kWait && event.warp == 1;
    committed |= event.kind == EventKind::kCommit;
    wait_first |= event.kind == EventKind::kWait && !committed;
  }
  return all + exercise::synchronization(seen.report, num_tiles, 1, 2) +
         (warp_sync ? "warp_sync " : "") + (both_wait ? "both wait " : "") +
         (wait_first ? "wait, then commit" : "");
}

static void check_sums(int num_tiles, uint64_t schedule) {
  const auto run = [&](auto kernel) {
    return exercise::run_tile_sums(kernel, NUM_THREADS, NUM_THREADS * CHUNK_BYTES, num_tiles,
                                   schedule);
  };
  const exercise::TileSums seen = run(sum_tiles);
  const std::string difference = exercise::difference({"sums", 0, 0}, seen.got, seen.expected);
  const bool clean = seen.report.hazards.empty();
  exercise::check_shown(
      clean && difference.empty(),
      clean ? difference : "the emulator found:\n" + exercise::hazards(seen.report),
      shown(seen, num_tiles), exercise::looks<Way>(MISTAKES, [&](const Way& changed) {
        way = changed;
        return shown(run(sums_with_way), num_tiles);
      }));
}

TEST_CASE("three tiles") { check_sums(3, 0); }
TEST_CASE("other orders of the threads") {
  for (uint64_t schedule = 1; schedule <= 3; ++schedule) check_sums(4, schedule);
}
