#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <prefetch.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using fa::simt::EventKind;
using fa::simt::HazardKind;

constexpr int NUM_THREADS = 64, TILE = NUM_THREADS * 4;  // floats; a chunk of 4 for each thread
constexpr uint32_t TILE_BYTES = TILE * sizeof(float);
constexpr int ROOM = 32;  // for the adds of a loop that does not end when it should

// One run: what each add saw, and what the next tile's copy did meanwhile.
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

// The loop as people write it: right as it stands here, and each mistake is a change to it.
struct Way {
  enum Commit { kAlways, kWithCopy, kBeforeCopy, kNever } commit = kAlways;
  enum Start { kBeforeWait, kBeforeAdd, kAfterAdd } start = kBeforeWait;  // the next tile
  enum Barriers { kBoth, kLandedOnly, kReadOnly, kBeforeTheWait, kNone } barriers = kBoth;
  int wait = 1;  // -1: none
  bool first_copy = true, first_commit = true, guard = true;
  int more_turns = 0;
  enum Buffer { kAlternating, kOther, kZero, kOne } into = kAlternating, from = kAlternating;
};

static int buffer(Way::Buffer which, int tile) {
  const int zero_or_one = which == Way::kZero ? 0 : 1;
  return which == Way::kAlternating ? tile % 2
         : which == Way::kOther     ? (tile + 1) % 2
                                    : zero_or_one;
}

static Seen run(int num_tiles, const Way& way) {
  return run(num_tiles, [&](Steps& steps, int count) {
    const auto start = [&](int tile) {
      if (way.commit == Way::kBeforeCopy) cp_async_commit();
      if (tile < count || !way.guard) steps.start_copy(buffer(way.into, tile), tile);
      if (way.commit == Way::kAlways || (way.commit == Way::kWithCopy && tile < count))
        cp_async_commit();
    };
    const auto barrier = [&](std::initializer_list<Way::Barriers> ways) {
      if (std::find(ways.begin(), ways.end(), way.barriers) != ways.end()) block_sync();
    };
    if (way.first_copy) steps.start_copy(0, 0);
    if (way.first_commit) cp_async_commit();
    for (int tile = 0; tile < count + way.more_turns; ++tile) {
      if (way.start == Way::kBeforeWait) start(tile + 1);
      barrier({Way::kBeforeTheWait});
      if (way.wait >= 0) exercise::wait_for_groups(way.wait);
      barrier({Way::kBoth, Way::kLandedOnly});
      if (way.start == Way::kBeforeAdd) start(tile + 1);
      steps.add(buffer(way.from, tile));
      barrier({Way::kBoth, Way::kReadOnly, Way::kBeforeTheWait});
      if (way.start == Way::kAfterAdd) start(tile + 1);
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

  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    looks.push_back({name, shown(run(num_tiles, way), num_tiles), explanation});
  };
  const char* const too_few =
      "every tile was added while its copy was in flight: before the add there was no wait, or its "
      "N was larger than the number of groups that were started after this tile's";
  mistake("wait-too-few", too_few, {.wait = 2});
  mistake("wait-too-few", too_few, {.wait = -1});
  for (const auto start : {Way::kBeforeAdd, Way::kAfterAdd})
    for (const auto barriers : {Way::kBoth, Way::kLandedOnly})
      for (const int wait : {1, 2, -1})
        mistake("wait-too-few", too_few, {.start = start, .barriers = barriers, .wait = wait});
  mistake("wait-too-few", too_few, {.barriers = Way::kLandedOnly, .wait = -1});
  mistake("nothing-committed",
          "no group was ever committed, so there is none to wait for: cp_async_wait counts groups",
          {.commit = Way::kNever, .first_commit = false});
  mistake("first-commit-forgotten",
          "tile 0 has no group of its own: it shares one with tile 1, and wait<1> leaves both in "
          "flight; commit after the first start_copy, too",
          {.first_commit = false});
  const char* const no_first =
      "tile 0 was never started: each turn starts the next one, and the first has no turn before "
      "it";
  mistake("first-tile-not-started", no_first, {.first_copy = false, .first_commit = false});
  mistake("first-tile-not-started", no_first, {.first_copy = false});
  const char* const before_copy =
      "the commit stands before start_copy and closes a group that the copy is not in; the copy "
      "belongs to the next one";
  mistake("commit-before-copy", before_copy, {.commit = Way::kBeforeCopy});
  mistake("conditional-commit",
          "only the last tile is read too early: nothing was committed after it, so wait<1> lets "
          "the tile itself stay in flight; commit in every turn, also when nothing is copied",
          {.commit = Way::kWithCopy});
  const char* const no_guard =
      "in the last turn a tile was started that does not exist; start the next tile if there is "
      "one, and commit all the same";
  mistake("no-guard", no_guard, {.guard = false});
  mistake("no-guard", no_guard, {.start = Way::kBeforeAdd, .wait = 0, .guard = false});
  mistake("wait-for-all",
          "right, but each wait waits for the tile that was started last, too; wait<1> leaves it "
          "in flight",
          {.wait = 0});
  mistake("copy-too-late",
          "right, but the next tile's copy starts after this tile was added, and has nothing to "
          "hide behind",
          {.start = Way::kAfterAdd, .wait = 0});
  const char* const second =
      "a fast thread starts the copy after next into the buffer that a slow one still adds; a "
      "barrier must stand between an add and the next copy into its buffer";
  mistake("second-barrier-missing", second, {.barriers = Way::kLandedOnly});
  mistake("landing-barrier-missing",
          "the wait speaks for one thread; without a barrier between it and the add nobody knows "
          "that the other threads' parts have landed",
          {.barriers = Way::kReadOnly});
  mistake("barrier-before-wait",
          "the wait speaks for one thread; a barrier after it tells that the others' parts have "
          "landed, one before it tells nothing",
          {.barriers = Way::kBeforeTheWait});
  const char* const no_barrier =
      "there is no barrier: one must stand between a wait and the add, because each thread waits "
      "for its own copies only, and one between an add and the next copy into its buffer";
  mistake("no-barrier", no_barrier, {.barriers = Way::kNone});
  const char* const fixed =
      "start_copy or add got the same buffer in every turn; tile j lives in buffer j % 2";
  for (const auto into : {Way::kAlternating, Way::kZero, Way::kOne})
    for (const auto from : {Way::kAlternating, Way::kZero, Way::kOne})
      if (into != from || into != Way::kAlternating)
        mistake("one-buffer", fixed, {.into = into, .from = from});
  const char* const next_into_this =
      "the next tile was copied into the buffer that is added now; tile j + 1 goes to buffer (j + "
      "1) % 2";
  mistake("next-into-this-buffer", next_into_this, {.into = Way::kOther});
  const char* const adds_other =
      "add got the buffer of the next tile; tile j lives in buffer j % 2";
  mistake("adds-the-other-buffer", adds_other, {.from = Way::kOther});
  const char* const last_missing = "the loop ends one turn too early: the last tile is never added";
  mistake("last-tile-missing", last_missing, {.more_turns = -1});
  const char* const too_many = "the loop takes one turn more than there are tiles: < and not <=";
  mistake("one-turn-too-many", too_many, {.more_turns = 1});
  // The order with one barrier: the next tile starts behind it, and nothing younger is in flight at
  // the wait. Right with wait<0>.
  const auto one_barrier = [&](const char* name, const char* explanation, Way way) {
    way.start = Way::kBeforeAdd;
    way.wait = 0;
    if (way.barriers == Way::kBoth) way.barriers = Way::kLandedOnly;
    mistake(name, explanation, way);
  };
  one_barrier(
      "nothing-committed",
      "no group was ever committed, so there is none to wait for: cp_async_wait counts groups",
      {.commit = Way::kNever, .first_commit = false});
  one_barrier("first-commit-forgotten",
              "tile 0 has no group when it is waited for; commit after the first start_copy, too",
              {.first_commit = false});
  one_barrier("first-tile-not-started", no_first, {.first_copy = false, .first_commit = false});
  one_barrier("first-tile-not-started", no_first, {.first_copy = false});
  one_barrier("commit-before-copy", before_copy, {.commit = Way::kBeforeCopy});
  one_barrier("no-guard", no_guard, {.guard = false});
  one_barrier("landing-barrier-missing",
              "the wait speaks for one thread; a barrier must stand between it and the add, and "
              "the only one stands behind the add, or before the wait",
              {.barriers = Way::kReadOnly});
  one_barrier("no-barrier", no_barrier, {.barriers = Way::kNone});
  for (const auto into : {Way::kAlternating, Way::kZero, Way::kOne})
    for (const auto from : {Way::kAlternating, Way::kZero, Way::kOne})
      if (into != from || into != Way::kAlternating)
        one_barrier("one-buffer", fixed, {.into = into, .from = from});
  one_barrier("next-into-this-buffer", next_into_this, {.into = Way::kOther});
  one_barrier("adds-the-other-buffer", adds_other, {.from = Way::kOther});
  one_barrier("last-tile-missing", last_missing, {.more_turns = -1});
  one_barrier("one-turn-too-many", too_many, {.more_turns = 1});
  exercise::check_shown(right && seen.report.hazards.empty() && seen.on_its_way, message,
                        shown(seen, num_tiles), looks);
}

TEST_CASE("five tiles") { check_tiles(5); }
TEST_CASE("two tiles") { check_tiles(2); }
TEST_CASE("one tile") { check_tiles(1); }
