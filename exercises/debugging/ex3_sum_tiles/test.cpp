#include <doctest/doctest.h>

#include <sum_tiles.hpp>

#include "exercises/support/tile_sums.hpp"

using fa::simt::EventKind;

using namespace emulator;
using namespace emulator::debugging;

// The repaired loop, and each mistake as a change to it.
struct Way {
  enum Wait { kAll, kOneWarp, kOneThread, kNone } wait = kAll;
  int groups = 0;
  bool wait_before_commit = false, wait_before_copy = false;
  enum Barrier { kBehindWait, kBeforeWait, kBoth, kMissing } barrier = kBehindWait;
  bool wait_behind_sum = false, warp_sync = false, last_barrier = true, own_chunk = false;
};
static Way way;

static void sums_with_way(const float* tiles, float* sums, int num_tiles) {
  const uint32_t mine = dynamic_smem() + thread_index() * CHUNK_BYTES;
  const uint32_t theirs = dynamic_smem() + (NUM_THREADS - 1 - thread_index()) * CHUNK_BYTES;
  const auto wait = [] {
    if (way.wait == Way::kAll || (way.wait == Way::kOneWarp && warp_index() == 0) ||
        (way.wait == Way::kOneThread && thread_index() == 0))
      exercise::wait_for_groups(way.groups);
  };
  float sum = 0;
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (way.wait_before_copy) wait();
    cp_async_16(mine, tiles + (tile * NUM_THREADS + thread_index()) * 4, CHUNK_BYTES);
    if (way.wait_before_commit) wait();
    cp_async_commit();
    if (way.barrier == Way::kBeforeWait || way.barrier == Way::kBoth) block_sync();
    if (!way.wait_before_commit && !way.wait_before_copy && !way.wait_behind_sum) wait();
    if (way.warp_sync) warp_sync();
    if (way.barrier == Way::kBehindWait || way.barrier == Way::kBoth) block_sync();
    sum += load_shared<float>(way.own_chunk ? mine : theirs);
    if (way.wait_behind_sum) wait();
    if (way.last_barrier) block_sync();
  }
  store_global(sums + thread_index(), sum);
}

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
  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, const char* explanation, const Way& changed) {
    way = changed;
    looks.push_back({name, shown(run(sums_with_way), num_tiles), explanation});
  };
  const char* const warp =
      "warp_sync orders the lanes of one warp; the chunk that is read comes from the other warp";
  mistake("warp-for-block", warp, {.barrier = Way::kBeforeWait, .warp_sync = true});
  mistake("warp-for-block", warp, {.barrier = Way::kMissing, .warp_sync = true});
  mistake("one-barrier",
          "the barrier after the sum is missing, so that the next tile overwrites the data that "
          "the other warp still reads",
          {.last_barrier = false});
  mistake("one-barrier",
          "the barrier after the sum is missing, so that the next tile overwrites the data that "
          "the other warp still reads",
          {.barrier = Way::kBoth, .last_barrier = false});
  mistake("both-barriers-early",
          "the barriers come before the wait. A barrier after the wait must show that the other "
          "threads' copies have landed",
          {.barrier = Way::kBeforeWait, .last_barrier = false});
  const char* const some =
      "only the threads that wait know that their copies have landed; each must wait for its own";
  mistake("one-warp-waits", some, {.wait = Way::kOneWarp});
  mistake("one-warp-waits", some, {.wait = Way::kOneWarp, .barrier = Way::kBoth});
  mistake("one-warp-waits", some, {.wait = Way::kOneWarp, .barrier = Way::kBeforeWait});
  mistake("one-warp-waits", some, {.wait = Way::kOneThread});
  mistake("one-warp-waits", some, {.wait = Way::kOneThread, .barrier = Way::kBeforeWait});
  const char* const late = "every thread waits after it has read; wait, barrier, then the sum";
  mistake("wait-behind-the-sum", late, {.wait_behind_sum = true});
  mistake("no-wait", "no thread waits: a barrier orders threads, not the copies that are in flight",
          {.wait = Way::kNone});
  mistake("wait-too-few",
          "cp_async_wait<1> lets the youngest group stay in flight, and that is this tile's",
          {.groups = 1});
  const char* const early =
      "the wait comes before the commit: this tile's copies are in no group yet, so that it waits "
      "for earlier groups";
  for (const auto barrier : {Way::kBehindWait, Way::kBeforeWait, Way::kBoth}) {
    mistake("wait-before-commit", early, {.wait_before_commit = true, .barrier = barrier});
    mistake("wait-before-commit", early, {.wait_before_copy = true, .barrier = barrier});
  }
  mistake("no-barrier",
          "there is no barrier, and the chunk that is read was copied by the other warp",
          {.barrier = Way::kMissing, .last_barrier = false});
  mistake("landing-barrier-missing",
          "there is no barrier between the wait and the sum. A barrier after the sum is too late",
          {.barrier = Way::kMissing});
  const char* const own =
      "each thread adds its own chunk: no race, and another sum; thread t adds that of thread 63 - "
      "t";
  mistake("own-chunk", own, {.own_chunk = true});
  const std::string difference = exercise::difference({"sums", 0, 0}, seen.got, seen.expected);
  const bool clean = seen.report.hazards.empty();
  exercise::check_shown(
      clean && difference.empty(),
      clean ? difference : "the emulator found:\n" + exercise::hazards(seen.report),
      shown(seen, num_tiles), looks);
}

TEST_CASE("three tiles") { check_sums(3, 0); }
TEST_CASE("other orders of the threads") {
  for (uint64_t schedule = 1; schedule <= 3; ++schedule) check_sums(4, schedule);
}
