#include <doctest/doctest.h>

#include "exercises/support/warp.hpp"

// The answer's calls come by here, so that the test can count them.
namespace emulator::ex22 {
struct Calls {
  int fences = 0, commits = 0, waits = 0, others_waits = 0;
};
static Calls calls;
inline void fence_proxy_async(FA_SITE) {
  ++calls.fences;
  emulator::fence_proxy_async(line, file);
}
inline void tma_store_commit(FA_SITE) {
  ++calls.commits;
  emulator::tma_store_commit(line, file);
}
template <int N>
void tma_store_wait_read(FA_SITE) {
  ++(lane_index() == 0 ? calls.waits : calls.others_waits);
  emulator::tma_store_wait_read<N>(line, file);
}
template <int N>
void tma_store_wait(FA_SITE) {
  ++(lane_index() == 0 ? calls.waits : calls.others_waits);
  emulator::tma_store_wait<N>(line, file);
}
}  // namespace emulator::ex22

#include <staging_buffer.hpp>

using exercise::Changes;
using namespace emulator;
using namespace emulator::ex22;

// Stores 4 numbers per thread, tile + 1 everywhere.
struct Steps {
  uint32_t smem;
  void store(int tile, FA_SITE) const {
    for (int i = 0; i < TILE_FLOATS / STORING_THREADS; ++i)
      store_shared<float>(smem + (i * STORING_THREADS + thread_index()) * 4,
                          static_cast<float>(tile + 1), line, file);
  }
};

struct Seen {
  exercise::Numbers sums;
  fa::simt::Report report;
  Calls calls;

  // Everything that a mistake must explain.
  std::string shown() const {
    const auto some = [](int count, const char* what) { return count > 0 ? what : ""; };
    std::string all = exercise::hazard_kinds(report) + some(calls.fences, "fences ") +
                      some(calls.commits, "commits ") + some(calls.waits, "waits ") +
                      some(calls.others_waits, "other waits ");
    for (const double sum : sums) all += exercise::text(sum) + " ";
    return all;
  }
};

template <class HandOver, class Add>
static Seen run(int tiles, uint64_t seed, const HandOver& hand_over_, const Add& add) {
  calls = {};
  fa::simt::Buffer<float> sums(static_cast<size_t>(tiles) * TILE_FLOATS, "sums");
  std::fill(sums.data(), sums.data() + sums.size(), 10.0f);
  fa::simt::Config config;
  config.schedule_seed = seed;
  Seen seen;
  seen.report = exercise::run_block(
      THREADS, TILE_BYTES,
      [&] {
        Steps steps{dynamic_smem()};
        if (warp_index() == 2) return add(sums.data(), dynamic_smem(), tiles);
        for (int tile = 0; tile < tiles; ++tile) hand_over_(steps, tile);
      },
      config);
  seen.calls = calls;
  for (int tile = 0; tile < tiles; ++tile)  // every number of a tile is the same, if it is right
    for (const int at : {0, TILE_FLOATS / 2, TILE_FLOATS - 1})
      seen.sums.push_back(sums[tile * TILE_FLOATS + at]);
  return seen;
}

// The right answer, and each mistake as a change to it.

static void hand_over_with(const Changes& is, Steps& steps, int tile) {
  if (is("before-store")) ex22::fence_proxy_async();
  if (!is("free-not-awaited") && (tile > 0 || is("wait-before-the-first-tile")))
    barrier_sync(FREE, THREADS);
  steps.store(tile);
  if (!is.any("fence-forgotten", "after-arrive", "before-store")) ex22::fence_proxy_async();
  barrier_arrive(STORED, THREADS);
  if (is("after-arrive")) ex22::fence_proxy_async();
}

static void add_with(const Changes& is, float* sums, uint32_t smem, int tiles) {
  for (int tile = 0; tile < tiles; ++tile) {
    if (!is("add-before-stored")) barrier_sync(STORED, THREADS);
    if (is("add-before-stored")) barrier_arrive(STORED, THREADS);
    if (lane_index() == 0) {
      bulk_reduce_add(sums + (is("one-tile-of-sums") ? 0 : tile * TILE_FLOATS), smem, TILE_BYTES);
      if (is("before-commit")) ex22::tma_store_wait_read<0>();
      if (!is("commit-forgotten")) ex22::tma_store_commit();
      const bool unawaited = is("last-tile-not-awaited") && tile + 1 == tiles;
      if (!unawaited &&
          !is.any("no-wait-for-the-read", "leave-one", "wait-by-another-lane", "before-commit"))
        ex22::tma_store_wait_read<0>();
      if (is("leave-one")) ex22::tma_store_wait_read<1>();
    }
    if (is("wait-by-another-lane") && lane_index() == 1) ex22::tma_store_wait_read<0>();
    warp_sync();
    if (!is("free-not-awaited") && (tile + 1 < tiles || is("last-arrival")))
      barrier_arrive(FREE, THREADS);
  }
}

static const exercise::Table MISTAKES(R"(
no-wait-for-the-read
  the buffer is declared free while the copy engine still reads it: bulk_reduce_add returns before
  it reads, and only a wait says that it has
last-tile-not-awaited
  no thread waits until the copy engine has read the last tile. If the block ends before, another
  block may get the buffer
wait-leaves-one-group: leave-one; before-commit
  wait_read<1> lets the last group be in flight, and that is the one that reads the buffer
commit-forgotten
  the wait waits for groups, and without tma_store_commit the copy is in none
wait-by-another-lane
  bulk groups belong to the thread that commits them. The wait of another lane waits for nothing
free-not-awaited
  the storing threads do not wait until the buffer is free
add-before-stored
  the adding warp arrives at STORED and does not wait there, so that the copy engine may read
  before the tile is stored
fence-forgotten
  the copy engine reads through the async proxy. Ordinary stores become visible to it by
  fence_proxy_async
fence-in-the-wrong-place: after-arrive; before-store
  the fence is not between the stores and the arrival at STORED
wait-before-the-first-tile
  the storing threads wait for FREE before tile 0, and no thread has arrived there yet
one-tile-of-sums
  all tiles are added to the first TILE_FLOATS sums
)");

static void check_tiles(int tiles) {
  for (const uint64_t seed : {0, 1, 2}) {
    const Seen got = run(
        tiles, seed, [](Steps& steps, int tile) { hand_over(steps, tile); },
        [](float* sums, uint32_t smem, int n) { add_tiles(sums, smem, n); });
    exercise::Numbers right;
    for (int tile = 0; tile < tiles; ++tile) right.insert(right.end(), 3, tile + 11);
    const std::string wrong = exercise::difference({"sum of tile", 3, 0}, got.sums, right);
    const std::string hazards = exercise::hazards(got.report);
    const auto looks = exercise::looks(MISTAKES, [&](const Changes& is) {
      return run(
                 tiles, seed, [&](Steps& steps, int tile) { hand_over_with(is, steps, tile); },
                 [&](float* sums, uint32_t smem, int n) { add_with(is, sums, smem, n); })
          .shown();
    });
    exercise::check_shown(wrong.empty() && hazards.empty(), hazards + wrong, got.shown(), looks);
  }
}

TEST_CASE("one tile") { check_tiles(1); }
TEST_CASE("two tiles") { check_tiles(2); }
TEST_CASE("five tiles") { check_tiles(5); }

// The answer that this test expects.
TEST_CASE("both sides") {
  const Seen right = run(
      3, 0, [](Steps& steps, int tile) { hand_over_with({}, steps, tile); },
      [](float* sums, uint32_t smem, int n) { add_with({}, sums, smem, n); });
  CHECK(exercise::hazards(right.report) == "");
  CHECK(right.sums == exercise::Numbers{11, 11, 11, 12, 12, 12, 13, 13, 13});
}
