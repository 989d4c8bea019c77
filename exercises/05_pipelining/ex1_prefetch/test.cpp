#include <doctest/doctest.h>

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

static void check_tiles(int num_tiles) {
  const Seen seen = run(num_tiles, [](Steps& steps, int count) { ex05::add_tiles(steps, count); });
  bool right = seen.adds.size() == static_cast<size_t>(num_tiles);
  bool last_wrong = !seen.adds.empty(), none_right = true, late = true, all_landed = true;
  std::string message = std::to_string(num_tiles) + (num_tiles == 1 ? " tile\n" : " tiles\n") +
                        exercise::hazards(seen.report);
  for (size_t i = 0; i < seen.adds.size(); ++i) {
    const std::string& add = seen.adds[i];
    message += (i ? "\nadd " : "add ") + std::to_string(i) + " saw " + add;
    const bool ok = add.rfind("tile " + std::to_string(i), 0) == 0;
    right = right && ok;
    none_right = none_right && !ok;
    const bool is_last = i + 1 == seen.adds.size();
    last_wrong = last_wrong && ok != is_last;
    if (!is_last) late = late && add.find("not started") != std::string::npos;
    if (!is_last) all_landed = all_landed && add.find("landed already") != std::string::npos;
  }
  if (seen.adds.empty()) message += "nothing was added";
  const auto has = [&](HazardKind kind) { return exercise::has(seen.report, kind); };
  const bool clean = seen.report.hazards.empty();
  const bool in_place = has(HazardKind::kOverwriteWhileRead);
  const Seen one_buffer = run(num_tiles, [](Steps& steps, int count) {
    steps.start_copy(0, 0);
    cp_async_commit();
    for (int tile = 0; tile < count; ++tile) {
      if (tile + 1 < count) steps.start_copy(0, tile + 1);
      cp_async_commit();
      cp_async_wait<1>();
      block_sync();
      steps.add(0);
      block_sync();
    }
  });
  exercise::check(
      right && clean && seen.on_its_way, message,
      {{"conditional-commit",
        last_wrong && has(HazardKind::kReadBeforeWait) && seen.report.hazards.size() == 1,
        "only the last tile is read too early: nothing was committed after it, so wait<1> lets the "
        "tile itself stay in flight; commit in every turn, also when nothing is copied"},
       {"wait-too-few", none_right && has(HazardKind::kReadBeforeWait),
        "every tile was added while its copy was in flight: there was no wait, or its N let the "
        "tile "
        "itself stay in flight; when tile j is added, one group may be"},
       {"wait-for-all", right && clean && all_landed && num_tiles > 1,
        "right, but each wait waits for the tile that was started last, too; wait<1> leaves it in "
        "flight"},
       {"copy-too-late", right && clean && late && num_tiles > 1,
        "right, but the next tile's copy starts after this tile was added, and has nothing to hide "
        "behind"},
       {"second-barrier-missing",
        in_place && !has(HazardKind::kReadBeforeWait) && !has(HazardKind::kReadBeforeBarrier),
        "a fast thread starts the copy after next into the buffer that a slow one still adds; a "
        "barrier must stand between an add and the next copy into its buffer"},
       {"barrier-before-wait",
        has(HazardKind::kReadBeforeBarrier) && !in_place && !has(HazardKind::kReadBeforeWait),
        "the wait speaks for one thread; a barrier after it tells that the others' parts have "
        "landed, one before it tells nothing"},
       {"one-buffer", seen.adds == one_buffer.adds && has(HazardKind::kReadBeforeWait),
        "the next tile was copied into the buffer that is added now; tile j lives in buffer "
        "j % 2"}});
}

TEST_CASE("five tiles") { check_tiles(5); }
TEST_CASE("two tiles") { check_tiles(2); }
TEST_CASE("one tile") { check_tiles(1); }
