#include <doctest/doctest.h>

#include <algorithm>
#include <one_v_buffer.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using fa::simt::EventKind;

constexpr int NUM_THREADS = 64, TILE = NUM_THREADS * 4;  // floats; a chunk of 4 for each thread
constexpr uint32_t TILE_BYTES = TILE * sizeof(float);
constexpr int ROOM = 64;  // for the multiplications of a loop that does not end when it should

struct Steps {
  const float *K, *V;
  int num_tiles;
  std::vector<float>* read;  // [multiplication][thread]
  int count = 0;

  static uint32_t K_smem(int tile) { return dynamic_smem() + tile % 2 * TILE_BYTES; }
  static uint32_t V_smem() { return dynamic_smem() + 2 * TILE_BYTES; }

  void copy(const float* gmem, uint32_t smem, int tile, int line, const char* file) {
    const int first = thread_index() * 4;
    if (tile < num_tiles) cp_async_16(smem + first * 4, gmem + tile * TILE + first, 16, line, file);
    cp_async_commit(line, file);
  }
  void load_K(int tile, FA_SITE) { copy(K, K_smem(tile), tile, line, file); }
  void load_V(int tile, FA_SITE) { copy(V, V_smem(), tile, line, file); }

  // Each thread reads what a thread of the other warp has copied.
  void multiply(uint32_t smem, int line, const char* file) {
    const uint32_t chunk = (thread_index() + NUM_THREADS / 2) % NUM_THREADS;
    const float value = load_shared<float>(smem + chunk * 16, line, file);
    if (count < ROOM) (*read)[count++ * NUM_THREADS + thread_index()] = value;
  }
  void multiply_K(int tile, FA_SITE) { multiply(K_smem(tile), line, file); }
  void multiply_V(int, FA_SITE) { multiply(V_smem(), line, file); }
};

// Tile j of K holds 2 j, of V 2 j + 1: the order in which they should be read.
static std::string name(float value) {
  const int number = static_cast<int>(value);
  return (number % 2 ? "V" : "K") + std::to_string(number / 2);
}

struct Seen {
  std::vector<std::string> lines;  // one for each multiplication
  fa::simt::Report report;
  bool in_order = true;
  bool next_flies = true;  // what comes next is on its way meanwhile
};

template <class Walk>
static Seen run(int num_tiles, Walk walk) {
  fa::simt::Buffer<float> K(num_tiles * TILE, "K"), V(num_tiles * TILE, "V");
  for (size_t i = 0; i < K.size(); ++i) {
    K[i] = static_cast<float>(2 * (i / TILE));
    V[i] = K[i] + 1;
  }
  std::vector<float> read(ROOM * NUM_THREADS, -1);
  Seen seen;
  fa::simt::Config config;
  config.events = true;
  seen.report = exercise::run_block(
      NUM_THREADS, 3 * TILE_BYTES,
      [&] {
        Steps steps{K.data(), V.data(), num_tiles, &read};
        walk(steps, num_tiles);
      },
      config);

  int issued = 0, landed = 0;  // warp 0's copies; a copy's number is that of the tile it brings
  for (const fa::simt::Event& event : seen.report.events) {
    if (event.warp != 0) continue;
    if (event.kind == EventKind::kCopyIssue) ++issued;
    if (event.kind == EventKind::kLand && event.bytes > 0) ++landed;
    if (event.kind != EventKind::kLoadShared) continue;
    const int at = static_cast<int>(seen.lines.size());
    if (at == ROOM) break;
    const float first = read[at * NUM_THREADS];
    bool same = true;
    for (int t = 0; t < NUM_THREADS; ++t) same = same && read[at * NUM_THREADS + t] == first;
    seen.in_order = seen.in_order && same && first == static_cast<float>(at);
    std::string what = "multiplication " + std::to_string(at) + " read " +
                       (same ? name(first) : "NaN or a mixture") + ", expected " +
                       name(static_cast<float>(at));
    if (at + 1 < 2 * num_tiles) {
      const bool flies = issued >= at + 2 && landed < at + 2;
      seen.next_flies = seen.next_flies && flies;
      what += "; " + name(static_cast<float>(at + 1)) +
              (flies             ? " on its way"
               : issued < at + 2 ? " not started"
                                 : " landed already");
    }
    seen.lines.push_back(what);
  }
  seen.in_order = seen.in_order && seen.lines.size() == 2 * static_cast<size_t>(num_tiles);
  return seen;
}

// The loop as people write it: right as it stands here, and each mistake is a change to it.
struct Way {
  enum LoadV { kBeforeK, kAfterK } load_V = kBeforeK;  // before or after multiply_K
  enum LoadK { kBeforeV, kAfterV, kAtTheTop } load_K = kBeforeV;
  int K_wait = 1, V_wait = 1;                         // -1: none
  enum Barrier { kThere, kMissing, kBeforeTheWait };  // for landing
  Barrier K_barrier = kThere, V_barrier = kThere;
  enum Top { kBeforeLoadV, kAfterLoadV, kNone } top = kBeforeLoadV;
  bool first_K = true, guard = false;
  int next = 1, more_turns = 0;
};

static Seen run(int num_tiles, const Way& way) {
  return run(num_tiles, [&](Steps& steps, int count) {
    const auto land = [](int wait, Way::Barrier barrier) {
      if (barrier == Way::kBeforeTheWait) block_sync();
      if (wait >= 0) exercise::wait_for_groups(wait);
      if (barrier == Way::kThere) block_sync();
    };
    const auto load_K = [&](int tile) {
      if (tile < count || !way.guard) steps.load_K(tile);
    };
    if (way.load_K != Way::kAtTheTop && way.first_K) steps.load_K(0);
    for (int tile = 0; tile < count + way.more_turns; ++tile) {
      if (way.top == Way::kBeforeLoadV) block_sync();
      if (way.load_K == Way::kAtTheTop) steps.load_K(tile);
      if (way.load_V == Way::kBeforeK) steps.load_V(tile);
      if (way.top == Way::kAfterLoadV) block_sync();
      land(way.K_wait, way.K_barrier);
      steps.multiply_K(tile);
      if (way.load_V == Way::kAfterK) steps.load_V(tile);
      if (way.load_K == Way::kBeforeV) load_K(tile + way.next);
      land(way.V_wait, way.V_barrier);
      steps.multiply_V(tile);
      if (way.load_K == Way::kAfterV) load_K(tile + 1);
    }
  });
}

// All that a mistake must explain. A run without a hazard may have waits and barriers as it likes.
static std::string shown(const Seen& seen, int num_tiles) {
  std::string all = exercise::hazard_kinds(seen.report);
  if (!all.empty()) all += exercise::synchronization(seen.report, num_tiles, 2, 3);
  for (const std::string& line : seen.lines) all += line + "\n";
  return all;
}

static void check_walk(int num_tiles) {
  const Seen seen = run(num_tiles, [](Steps& steps, int n) { ex07::walk_tiles(steps, n); });
  std::string message = std::to_string(num_tiles) + " tiles\n" + exercise::hazards(seen.report);
  for (size_t i = 0; i < seen.lines.size(); ++i) message += (i ? "\n" : "") + seen.lines[i];
  if (seen.lines.empty()) message += "nothing was multiplied";

  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    looks.push_back({name, shown(run(num_tiles, way), num_tiles), explanation});
  };
  const char* const before_v =
      "load_V fills the only V buffer while a slower warp still multiplies with the last tile's V; "
      "a barrier must stand between multiply_V and the next load_V";
  mistake("no-barrier-before-v", before_v, {.top = Way::kNone});
  mistake("barrier-after-the-load",
          "there are barriers enough, but none between multiply_V and the next load_V: the copy "
          "starts at load_V, and what comes after it is too late",
          {.top = Way::kAfterLoadV});
  mistake("k-barrier-missing",
          "the wait before multiply_K speaks for one thread; a barrier behind it must say that the "
          "other threads' parts of K have landed",
          {.K_barrier = Way::kMissing});
  mistake("v-barrier-missing",
          "the wait before multiply_V speaks for one thread; a barrier behind it must say that the "
          "other threads' parts of V have landed",
          {.V_barrier = Way::kMissing});
  const char* const too_early =
      "a wait speaks for one thread; a barrier after it tells that the others' parts have landed, "
      "one before it tells nothing";
  mistake("barrier-before-wait", too_early, {.K_barrier = Way::kBeforeTheWait});
  mistake("barrier-before-wait", too_early, {.V_barrier = Way::kBeforeTheWait});
  mistake("barrier-before-wait", too_early,
          {.K_barrier = Way::kBeforeTheWait, .V_barrier = Way::kBeforeTheWait});
  mistake("no-barrier",
          "there is no barrier: each multiplication reads what other threads copied, and load_V "
          "overwrites what they read",
          {.K_barrier = Way::kMissing, .V_barrier = Way::kMissing, .top = Way::kNone});
  mistake("wait-for-all",
          "right, but each wait waits for the copy that was started last, too; wait<1> leaves it "
          "in flight",
          {.K_wait = 0, .V_wait = 0});
  mistake("wait-for-all",
          "right, but the wait before multiply_K waits for this tile's V, too; leave it in flight",
          {.K_wait = 0});
  mistake("wait-for-all",
          "right, but the wait before multiply_V waits for the next K, too; leave it in flight",
          {.V_wait = 0});
  const char* const too_few =
      "a tile was read while its copy was in flight: the N of a wait counts the groups that were "
      "started after the one that is needed, and here it is larger";
  mistake("wait-too-few", too_few, {.K_wait = 2});
  mistake("wait-too-few", too_few, {.V_wait = 2});
  mistake("wait-too-few", too_few, {.K_wait = 2, .V_wait = 2});
  mistake("wait-too-few", too_few, {.load_V = Way::kAfterK});
  mistake("wait-too-few", too_few, {.load_K = Way::kAfterV});
  mistake("wait-too-few", too_few, {.load_K = Way::kAtTheTop});
  mistake("missing-wait",
          "nothing waits for V: the wait before multiply_K leaves it in flight, so multiply_V "
          "needs a wait of its own",
          {.V_wait = -1});
  mistake("missing-wait",
          "nothing waits for K before multiply_K, and the wait before multiply_V is too late",
          {.K_wait = -1});
  mistake("missing-wait", "there is no wait at all: every tile was read while it was in flight",
          {.K_wait = -1, .V_wait = -1});
  const char* const conditional =
      "only the last V is read too early: load_K was left out for the tile that does not exist, "
      "and with it its group, so wait<1> lets V itself stay in flight. load_K commits an empty "
      "group there: call it in every turn";
  mistake("conditional-commit", conditional, {.guard = true});
  mistake("v-loaded-late",
          "right, but V's copy starts after multiply_K, and has nothing to hide behind; its buffer "
          "is free from the end of the last tile on",
          {.load_V = Way::kAfterK, .K_wait = 0});
  const char* const k_late =
      "right, but the next K's copy starts after multiply_V, and has nothing to hide behind; the "
      "other K buffer is free from the last multiply_K on";
  mistake("k-loaded-late", k_late, {.load_K = Way::kAfterV, .V_wait = 0});
  mistake("k-loaded-late", k_late, {.load_K = Way::kAtTheTop, .V_wait = 0});
  mistake("first-k-not-loaded",
          "K of tile 0 was never loaded: each turn loads the next one, and the first has no turn "
          "before it",
          {.first_K = false});
  mistake("same-k-again", "load_K got the number of this tile, whose K was multiplied already",
          {.next = 0});
  mistake("last-tile-missing", "the loop ends one turn too early: the last tile is left out",
          {.more_turns = -1});
  mistake("one-turn-too-many",
          "the loop takes one turn more than there are tiles: < and not <=", {.more_turns = 1});
  exercise::check_shown(seen.in_order && seen.report.hazards.empty() && seen.next_flies, message,
                        shown(seen, num_tiles), looks);
}

TEST_CASE("four tiles") { check_walk(4); }
TEST_CASE("two tiles") { check_walk(2); }
