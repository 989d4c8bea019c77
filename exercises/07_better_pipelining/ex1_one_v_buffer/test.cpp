#include <doctest/doctest.h>

#include <algorithm>
#include <one_v_buffer.hpp>

#include "exercises/support/warp.hpp"

using exercise::Changes;
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

// Tile j of K holds 2 j, of V 2 j + 1, the order in which they should be read.
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

  int issued = 0, landed = 0;  // warp 0's copies, numbered as the tiles that they bring
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

static const exercise::Table MISTAKES(R"(
no-barrier-before-v
  load_V fills the only V buffer while a slower warp still multiplies with the last tile's V. Put a
  barrier between multiply_V and the next load_V
barrier-after-the-load
  there are enough barriers, but none between multiply_V and the next load_V. The copy starts at
  load_V, so that a barrier after load_V is too late
k-barrier-missing
  the wait before multiply_K covers only the calling thread's copies. A barrier after this wait must
  show that the other threads' parts of K have landed
v-barrier-missing
  the wait before multiply_V covers only the calling thread's copies. A barrier after this wait must
  show that the other threads' parts of V have landed
barrier-before-wait: {,k-barrier-before-the-wait }v-barrier-before-the-wait;
    k-barrier-before-the-wait
  a wait covers only the calling thread's copies. A barrier after the wait covers those of all
  threads. A barrier before it does not
no-barrier: k-barrier-missing v-barrier-missing no-barrier-before-v
  there is no barrier: each multiplication reads what other threads copied, and load_V overwrites
  what they read
wait-for-all: k-wait=0 v-wait=0
  right, but each wait waits for the copy that was started last, too. wait<1> leaves it in flight
wait-for-all: k-wait=0
  right, but the wait before multiply_K waits for this tile's V, too. Leave it in flight
wait-for-all: v-wait=0
  right, but the wait before multiply_V waits for the next K, too. Leave it in flight
wait-too-few: {,k-wait=2 }v-wait=2; k-wait=2; after-k; after-v; at-the-top
  a tile was read while its copy was in flight: the N of a wait counts the groups that were
  started after the one that is needed, and here it is larger
missing-wait: v-wait=-1
  nothing waits for V: the wait before multiply_K leaves V in flight, so that a second wait is
  needed before multiply_V
missing-wait: k-wait=-1
  nothing waits for K before multiply_K, and the wait before multiply_V is too late
missing-wait: k-wait=-1 v-wait=-1
  there is no wait at all: every tile was read while it was in flight
conditional-commit
  only the last V is read too early: load_K was left out for the tile that does not exist, and
  with it its group, so wait<1> lets V itself stay in flight. load_K commits an empty group there:
  call it in every turn
v-loaded-late: after-k k-wait=0
  right, but V's copy starts after multiply_K, so that no computation hides it. V's buffer is free
  as soon as the last tile has ended
k-loaded-late: after-v v-wait=0; at-the-top v-wait=0
  right, but the next K's copy starts after multiply_V, so that no computation hides it. The other K
  buffer is free after the last multiply_K
first-k-not-loaded
  K of tile 0 was never loaded: each turn loads the next one, and the first has no turn before it
same-k-again
  load_K got the number of this tile, whose K was multiplied already
last-tile-missing
  the loop ends one turn too early: the last tile is left out
one-turn-too-many
  the loop takes one turn more than there are tiles: < and not <=
)");

// The right loop, and each mistake as a change to it.
static Seen run(int num_tiles, const Changes& is) {
  return run(num_tiles, [&](Steps& steps, int count) {
    const auto land = [&](const std::string& of) {
      const int groups = is.integer(of + "-wait", 1);
      const bool early = is(of + "-barrier-before-the-wait");
      if (early) block_sync();
      if (groups >= 0) exercise::wait_for_groups(groups);
      if (!early && !is(of + "-barrier-missing")) block_sync();
    };
    const auto load_K = [&](int tile) {
      if (tile < count || !is("conditional-commit")) steps.load_K(tile);
    };
    if (!is.any("at-the-top", "first-k-not-loaded")) steps.load_K(0);
    const int end = count + is("one-turn-too-many") - is("last-tile-missing");
    for (int tile = 0; tile < end; ++tile) {
      if (!is.any("barrier-after-the-load", "no-barrier-before-v")) block_sync();
      if (is("at-the-top")) steps.load_K(tile);
      if (!is("after-k")) steps.load_V(tile);
      if (is("barrier-after-the-load")) block_sync();
      land("k");
      steps.multiply_K(tile);
      if (is("after-k")) steps.load_V(tile);
      if (!is.any("after-v", "at-the-top")) load_K(tile + !is("same-k-again"));
      land("v");
      steps.multiply_V(tile);
      if (is("after-v")) load_K(tile + 1);
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

  const auto looks = exercise::looks(
      MISTAKES, [&](const Changes& is) { return shown(run(num_tiles, is), num_tiles); });
  exercise::check_shown(seen.in_order && seen.report.hazards.empty() && seen.next_flies, message,
                        shown(seen, num_tiles), looks);
}

TEST_CASE("four tiles") { check_walk(4); }
TEST_CASE("two tiles") { check_walk(2); }
