#include <doctest/doctest.h>

#include <algorithm>
#include <prefetch.hpp>

#include "exercises/support/warp.hpp"

using exercise::Changes;
using namespace emulator;
using fa::simt::EventKind;
using fa::simt::HazardKind;

constexpr int NUM_THREADS = 64, TILE = NUM_THREADS * 4;  // floats, a chunk of 4 for each thread
constexpr uint32_t TILE_BYTES = TILE * sizeof(float);
constexpr int ROOM = 32;  // for the adds of a loop that does not end when it should

// One run, with the tile that each add saw, and the state of the next tile's copy.
struct Seen {
  std::vector<std::string> adds;  // "tile 1, tile 2 on its way"
  fa::simt::Report report;
  bool on_its_way = true;  // of all tiles that have a next
};

struct Steps {
  const float* x;
  std::vector<float>* added;  // [add][thread]
  int count = 0;

  void start_copy(int buffer, int tile, FA_SITE) {
    const int first = thread_index() * 4;
    cp_async_16(dynamic_smem() + buffer * TILE_BYTES + first * 4, x + tile * TILE + first, 16, line,
                file);
  }
  // Each thread reads what a thread of the other warp has copied.
  void add(int buffer, FA_SITE) {
    const uint32_t chunk = (thread_index() + NUM_THREADS / 2) % NUM_THREADS;
    const float value =
        load_shared<float>(dynamic_smem() + buffer * TILE_BYTES + chunk * 16, line, file);
    if (count < ROOM) (*added)[count++ * NUM_THREADS + thread_index()] = value;
  }
};

template <class AddTiles>
static Seen run(int num_tiles, AddTiles add_tiles) {
  fa::simt::Buffer<float> x(num_tiles * TILE, "x");
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / TILE);
  std::vector<float> added(ROOM * NUM_THREADS, -1);
  Seen seen;
  fa::simt::Config config;
  config.events = true;
  seen.report = exercise::run_block(
      NUM_THREADS, 2 * TILE_BYTES,
      [&] {
        Steps steps{x.data(), &added};
        add_tiles(steps, num_tiles);
      },
      config);

  int64_t issued = 0, landed = 0;  // bytes of warp 0's copies
  constexpr int64_t WARP_BYTES = 32 * 16;
  for (const fa::simt::Event& event : seen.report.events) {
    if (event.warp != 0) continue;
    if (event.kind == EventKind::kCopyIssue) issued += event.bytes;
    if (event.kind == EventKind::kLand) landed += event.bytes;
    if (event.kind != EventKind::kLoadShared) continue;
    const int add = static_cast<int>(seen.adds.size());
    if (add == ROOM) break;
    std::string what;
    const float first = added[add * NUM_THREADS];
    bool same = true;
    for (int t = 0; t < NUM_THREADS; ++t) same = same && added[add * NUM_THREADS + t] == first;
    what = same ? "tile " + std::to_string(static_cast<int>(first)) : "NaN or a mixture";
    if (add + 1 < num_tiles) {
      const bool started = issued >= (add + 2) * WARP_BYTES;
      const bool flying = started && landed < (add + 2) * WARP_BYTES;
      what += ", tile " + std::to_string(add + 1) +
              (flying    ? " on its way"
               : started ? " landed already"
                         : " not started");
      seen.on_its_way = seen.on_its_way && flying;
    }
    seen.adds.push_back(what);
  }
  return seen;
}

// "one-barrier": starts the next tile after the only barrier, where nothing younger is in flight at
// the wait. This is right with wait<0>.
static const exercise::Table MISTAKES(R"(
wait-too-few: wait={2,-1}; second-barrier-missing wait=-1;
    {before-add,after-add} {,second-barrier-missing} wait={1,2,-1}
  every tile was added while its copy was in flight: before the add there was no wait, or its N
  was larger than the number of groups that were started after this tile's
nothing-committed: {,one-barrier }never first-commit-forgotten
  no group was ever committed, so there is none to wait for: cp_async_wait counts groups
first-commit-forgotten
  tile 0 shares a group with tile 1, and wait<1> leaves both in flight. Commit after the first
  start_copy, too
first-commit-forgotten: one-barrier first-commit-forgotten
  tile 0 has no group when it is waited for. Commit after the first start_copy, too
first-tile-not-started: {,one-barrier }no-first-copy {,first-commit-forgotten}
  tile 0 was never started: each turn starts the next one, and the first has no turn before it
commit-before-copy: {,one-barrier }commit-before-copy
  the commit comes before start_copy, so that it closes a group without this copy, and the copy is
  part of the next group
conditional-commit
  only the last tile is read too early: nothing was committed after it, so that wait<1> leaves this
  tile in flight. Commit in every iteration, even when nothing is copied
no-guard: {,before-add wait=0 ,one-barrier }no-guard
  in the last turn a tile was started that does not exist. Start the next tile if there is one, and
  commit all the same
wait-for-all: wait=0
  right, but each wait waits for the tile that was started last, too. wait<1> leaves it in flight
copy-too-late: after-add wait=0
  right, but the next tile's copy starts after this tile was added, and has nothing to hide behind
second-barrier-missing
  a fast thread starts a copy into the buffer that a slow thread still adds. Put a barrier between
  an add and the next copy into its buffer
landing-barrier-missing
  the wait covers only the calling thread's copies. Without a barrier between the wait and the add,
  a thread cannot know that the other threads' copies have landed
landing-barrier-missing: one-barrier landing-barrier-missing
  the wait covers only the calling thread's copies. A barrier must come between the wait and the
  add, and the only barrier here is after the add or before the wait
barrier-before-wait
  the wait covers only the calling thread's copies. A barrier after the wait covers those of all
  threads. A barrier before the wait does not
no-barrier: {,one-barrier }no-barrier
  there is no barrier. One must come between a wait and the add, because each thread waits only for
  its own copies, and one between an add and the next copy into its buffer
one-buffer: {,one-barrier }{,from=0 ,from=1 }into={0,1}; {,one-barrier }from={0,1}
  start_copy or add got the same buffer in every turn. Tile j lives in buffer j % 2
next-into-this-buffer: {,one-barrier }into-other
  the next tile was copied into the buffer that is added now. Tile j + 1 goes to buffer (j + 1) % 2
adds-the-other-buffer: {,one-barrier }from-other
  add got the buffer of the next tile. Tile j lives in buffer j % 2
last-tile-missing: {,one-barrier }last-tile-missing
  the loop ends one turn too early: the last tile is never added
one-turn-too-many: {,one-barrier }one-turn-too-many
  the loop takes one turn more than there are tiles: < and not <=
)");

static int buffer(const Changes& is, const std::string& which, int tile) {
  return is(which + "-other") ? (tile + 1) % 2 : is.integer(which, tile % 2);
}

// The right loop, and each mistake as a change to it.
static Seen run(int num_tiles, const Changes& is) {
  const bool one_barrier = is("one-barrier"), before_add = one_barrier || is("before-add");
  const bool late = is.any("landing-barrier-missing", "barrier-before-wait");
  const int groups = is.integer("wait", one_barrier ? 0 : 1);
  return run(num_tiles, [&](Steps& steps, int count) {
    const auto start = [&](int tile) {
      const bool exists = tile < count;
      if (is("commit-before-copy")) cp_async_commit();
      if (exists || is("no-guard")) steps.start_copy(buffer(is, "into", tile), tile);
      if (!is.any("commit-before-copy", "never") && (exists || !is("conditional-commit")))
        cp_async_commit();
    };
    if (!is("no-first-copy")) steps.start_copy(0, 0);
    if (!is("first-commit-forgotten")) cp_async_commit();
    const int end = count + is("one-turn-too-many") - is("last-tile-missing");
    for (int tile = 0; tile < end; ++tile) {
      if (!before_add && !is("after-add")) start(tile + 1);
      if (is("barrier-before-wait")) block_sync();
      if (groups >= 0) exercise::wait_for_groups(groups);
      if (!late && !is("no-barrier")) block_sync();
      if (before_add) start(tile + 1);
      steps.add(buffer(is, "from", tile));
      if (late || (!one_barrier && !is.any("second-barrier-missing", "no-barrier"))) block_sync();
      if (is("after-add")) start(tile + 1);
    }
  });
}

// All that a mistake must explain. A run without a hazard may have barriers as it likes.
static std::string shown(const Seen& seen, int num_tiles) {
  std::string all = exercise::hazard_kinds(seen.report);
  if (!all.empty()) all += exercise::synchronization(seen.report, num_tiles, 1, 2);
  for (const std::string& add : seen.adds) all += add + "\n";
  return all;
}

static void check_tiles(int num_tiles) {
  const Seen seen = run(num_tiles, [](Steps& steps, int count) { ex05::add_tiles(steps, count); });
  bool right = seen.adds.size() == static_cast<size_t>(num_tiles);
  std::string message = std::to_string(num_tiles) + (num_tiles == 1 ? " tile\n" : " tiles\n") +
                        exercise::hazards(seen.report);
  for (size_t i = 0; i < seen.adds.size(); ++i) {
    message += (i ? "\nadd " : "add ") + std::to_string(i) + " saw " + seen.adds[i];
    right = right && seen.adds[i].rfind("tile " + std::to_string(i), 0) == 0;
  }
  if (seen.adds.empty()) message += "nothing was added";

  const auto looks = exercise::looks(
      MISTAKES, [&](const Changes& is) { return shown(run(num_tiles, is), num_tiles); });
  exercise::check_shown(right && seen.report.hazards.empty() && seen.on_its_way, message,
                        shown(seen, num_tiles), looks);
}

TEST_CASE("five tiles") { check_tiles(5); }
TEST_CASE("two tiles") { check_tiles(2); }
TEST_CASE("one tile") { check_tiles(1); }
