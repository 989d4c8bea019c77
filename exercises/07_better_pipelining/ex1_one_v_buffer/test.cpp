#include <doctest/doctest.h>

#include <one_v_buffer.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using fa::simt::EventKind;
using fa::simt::HazardKind;

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
  bool V_flies = true, K_flies = true;  // what comes next is on its way meanwhile
  bool V_waits = true, K_waits = true;  // what comes next is never on its way
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
      bool& all = at % 2 ? seen.K_flies : seen.V_flies;
      bool& none = at % 2 ? seen.K_waits : seen.V_waits;
      all = all && flies;
      none = none && !flies;
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

static void check_walk(int num_tiles) {
  const Seen seen = run(num_tiles, [](Steps& steps, int n) { ex07::walk_tiles(steps, n); });
  std::string message = std::to_string(num_tiles) + " tiles\n" + exercise::hazards(seen.report);
  for (size_t i = 0; i < seen.lines.size(); ++i) message += (i ? "\n" : "") + seen.lines[i];
  if (seen.lines.empty()) message += "nothing was multiplied";

  const auto has = [&](HazardKind kind) { return exercise::has(seen.report, kind); };
  const bool clean = seen.in_order && seen.report.hazards.empty();
  const bool overwritten = has(HazardKind::kOverwriteWhileRead) && seen.report.hazards.size() == 1;
  // Of a warp. (A loop that is right has 2 or 3 for each tile, and perhaps one after the last.)
  const int64_t barriers = seen.report.counters.barriers / (NUM_THREADS / 32);
  const bool some_next = num_tiles > 1;
  exercise::check(
      clean && seen.V_flies && seen.K_flies, message,
      {{"no-barrier-before-v", overwritten && barriers <= 2 * num_tiles + 1,
        "load_V fills the only V buffer while a slower warp still multiplies with the last tile's "
        "V; a barrier must stand between multiply_V and the next load_V"},
       {"barrier-after-the-load", overwritten && barriers > 2 * num_tiles + 1,
        "there are barriers enough, but none between multiply_V and the next load_V: the copy "
        "starts at load_V, and what comes after it is too late"},
       {"wait-for-all",
        clean && seen.V_waits && (seen.K_waits || !some_next) &&
            seen.lines[0].find("landed") != std::string::npos,
        "right, but each wait waits for the copy that was started last, too; wait<1> leaves it in "
        "flight"},
       {"wait-too-few", has(HazardKind::kReadBeforeWait),
        "a tile was read while its copy was in flight; at both waits the needed group is the older "
        "of two, so N is 1: with a larger N it stays in flight itself"},
       {"v-loaded-late",
        clean && seen.V_waits && seen.lines[0].find("not started") != std::string::npos,
        "right, but V's copy starts after multiply_K, and has nothing to hide behind; its buffer "
        "is free from the end of the last tile on"}});
}

TEST_CASE("four tiles") { check_walk(4); }
TEST_CASE("two tiles") { check_walk(2); }
