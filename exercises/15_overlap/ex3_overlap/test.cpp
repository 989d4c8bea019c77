#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "common/kernels/wgmma_tile.hpp"
#include "exercises/support/warp.hpp"

// The answer's waits call these functions. They record the calls of thread 0:
namespace emulator::ex15 {
static std::string calls;  // "scores 0, wait<0>(S), …"
static void called(const std::string& what) {
  if (thread_index() == 0) calls += (calls.empty() ? "" : ", ") + what;
}
template <int N>
void wgmma_wait(FA_SITE) {
  called("wait<" + std::to_string(N) + ">()");
  emulator::wgmma_wait<N>(line, file);
}
template <int N, int N8>
void wgmma_wait(float (&a)[N8][4], FA_SITE) {
  called("wait<" + std::to_string(N) + (N8 == 8 ? ">(O)" : ">(S)"));
  emulator::wgmma_wait<N>(a, line, file);
}
template <int N, int A8, int B8>
void wgmma_wait(float (&a)[A8][4], float (&b)[B8][4], FA_SITE) {
  called("wait<" + std::to_string(N) + (A8 == 8 ? ">(O, S)" : ">(S, O)"));
  emulator::wgmma_wait<N>(a, b, line, file);
}
}  // namespace emulator::ex15

#include <overlap.hpp>

using exercise::Changes;
using namespace emulator;
using emulator::ex15::KEYS, emulator::ex15::HEAD_DIM, emulator::ex15::Scores,
    emulator::ex15::Weights, emulator::ex15::Output, emulator::ex15::called;

constexpr int THREADS = 128, QUERIES = 64;
constexpr int MISSING = 5;  // keys of the last tile
constexpr float SCALE = 0.125f;
constexpr uint32_t ROW_BYTES = 128, Q_BYTES = QUERIES * ROW_BYTES, TILE_BYTES = KEYS * ROW_BYTES;

// Q, K, V [rows, 64], one after the other. The keys grow, and the maximum with them, and after the
// last key come values that no output may contain.
struct Inputs {
  int num_tiles, num_keys;
  std::vector<uint16_t> elements;

  explicit Inputs(int tiles) : num_tiles(tiles), num_keys(tiles * KEYS - MISSING) {
    const auto add = [&](int rows, int seed, auto factor) {
      const std::vector<float> values = exercise::random_numbers(rows * HEAD_DIM, seed);
      for (int i = 0; i < rows * HEAD_DIM; ++i)
        elements.push_back(fa::to_bf16(values[i] * factor(i / HEAD_DIM)).bits);
    };
    add(QUERIES, 1, [](int) { return 1.0f; });
    add(tiles * KEYS, 2, [&](int key) { return 0.4f + 0.4f * static_cast<float>(key / KEYS); });
    add(tiles * KEYS, 3, [&](int key) { return key < num_keys ? 1.0f : 100.0f; });
  }
  double at(int row, int column) const {
    return fa::to_float(fa::bf16{elements[row * HEAD_DIM + column]});
  }

  exercise::Numbers expected() const {
    exercise::Numbers o(QUERIES * HEAD_DIM);
    for (int query = 0; query < QUERIES; ++query) {
      double sum = 0;
      for (int key = 0; key < num_keys; ++key) {
        double score = 0;
        for (int d = 0; d < HEAD_DIM; ++d) score += at(query, d) * at(QUERIES + key, d);
        const double weight = std::exp(score * SCALE);
        sum += weight;
        for (int d = 0; d < HEAD_DIM; ++d)
          o[query * HEAD_DIM + d] += weight * at(QUERIES + num_tiles * KEYS + key, d);
      }
      for (int d = 0; d < HEAD_DIM; ++d) o[query * HEAD_DIM + d] /= sum;
    }
    return o;
  }
};

struct Run {
  exercise::Numbers o = exercise::Numbers(QUERIES * HEAD_DIM, NAN);
  fa::simt::Report report;
  std::string calls;
  std::string first;               // the first error, in words
  int queued = 0, overlapped = 0;  // outputs issued after scores in flight, softmaxes during one
};

struct Factors {
  float of[2];  // rows lane / 4 and lane / 4 + 8 of the warp
};

struct Steps {
  Run& run;
  int num_tiles;
  const Scores& own_S;
  const Output& own_O;
  float m[2] = {-INFINITY, -INFINITY}, l[2] = {};

  template <class Registers>
  static bool in_flight(const Registers& registers) {
    return registers[0][0] != registers[0][0];  // poison is NaN
  }
  bool has(const char* what, int tile) const {
    called(what + std::string(" ") + std::to_string(tile));
    if (tile >= 0 && tile < num_tiles) return true;
    note(what + std::string(" of tile ") + std::to_string(tile) + ", and there are " +
         std::to_string(num_tiles) + " tiles");
    return false;
  }
  void note(const std::string& text) const {
    if (thread_index() == 0 && run.first.empty()) run.first = text + "\n";
  }

  void begin_scores(Scores& S, int tile, FA_SITE) {
    if (!has("scores", tile)) return emulator::wgmma_commit();
    const uint32_t Q = dynamic_smem(), K = Q + Q_BYTES + static_cast<uint32_t>(tile) * TILE_BYTES;
    wgmma_fence();
    for (int d = 0; d < HEAD_DIM / 16; ++d)
      wgmma<fa::bf16>(S, Tile<QUERIES>::columns(Q, d), Tile<KEYS>::columns(K, d), d > 0, line,
                      file);
    emulator::wgmma_commit();
  }
  void begin_output(Output& O, Weights& P, int tile, FA_SITE) {
    if (thread_index() == 0) run.queued += in_flight(own_S);
    if (!has("output", tile)) return emulator::wgmma_commit();
    const uint32_t V =
        dynamic_smem() + Q_BYTES + static_cast<uint32_t>(num_tiles + tile) * TILE_BYTES;
    wgmma_fence();
    wgmma<fa::bf16, Major::mn>(O, P, Tile<KEYS>::rows(V, 0), true, line, file);
    emulator::wgmma_commit();
  }
  Factors softmax(Scores& S, int tile) {
    has("softmax", tile);
    if (in_flight(S))
      note("softmax of tile " + std::to_string(tile) + ": S is NaN, it is still in flight");
    if (thread_index() == 0) run.overlapped += in_flight(own_O);
    const int keys_left = num_tiles * KEYS - MISSING - tile * KEYS;
    Factors factors{};
    for (int half = 0; half < 2; ++half) {
      float highest = m[half];
      const auto each = [&](auto use) {
        for (int i = 0; i < KEYS / 8 * 2; ++i)
          use(S[i / 2][half * 2 + i % 2], i / 2 * 8 + lane_index() % 4 * 2 + i % 2);
      };
      each([&](float& s, int key) {
        s = key < keys_left ? s * SCALE : -INFINITY;
        highest = s > highest ? s : highest;
      });
      for (const int lanes : {1, 2}) {
        const float other = shfl_xor(highest, lanes);
        highest = other > highest ? other : highest;
      }
      const float base = highest == -INFINITY ? 0 : highest;
      factors.of[half] = std::exp(m[half] - base);
      l[half] *= factors.of[half];
      each([&](float& s, int) { l[half] += s = std::exp(s - base); });
      m[half] = highest;
    }
    return factors;
  }
  void rescale(Output& O, const Factors& factors) {
    called("rescale");
    if (in_flight(O)) note("O is rescaled while it is in flight");
    for (auto& fragment : O)
      for (int i = 0; i < 4; ++i) fragment[i] *= factors.of[i / 2];
  }
  void pack(Weights& P, const Scores& S) {
    called("pack");
    if (in_flight(S)) note("P is packed from S, which is in flight");
    for (int i = 0; i < 4; ++i) P[i] = pack_bf16x2(S[i / 2][i % 2 * 2], S[i / 2][i % 2 * 2 + 1]);
  }
};

template <class Attend>
static Run run(const Inputs& inputs, Attend attend) {
  Run result;
  ex15::calls.clear();
  fa::simt::Config config;
  config.counters = false;
  result.report = exercise::run_block(
      THREADS, Q_BYTES + 2 * inputs.num_tiles * TILE_BYTES,
      [&] {
        // The eight chunks of a row, swizzled.
        exercise::fill_shared(dynamic_smem(), inputs.elements, THREADS,
                              [](uint32_t offset) { return offset ^ offset / ROW_BYTES % 8 * 16; });
        fence_proxy_async();
        block_sync();
        Scores S = {};
        Weights P = {};
        Output O = {};
        Steps steps{result, inputs.num_tiles, S, O};
        attend(steps, S, P, O, inputs.num_tiles);
        for (int half = 0; half < 2; ++half) {
          float sum = steps.l[half];
          for (const int lanes : {1, 2}) sum += shfl_xor(sum, lanes);
          const int row = warp_index() * 16 + lane_index() / 4 + half * 8;
          for (int i = 0; i < HEAD_DIM / 4; ++i)
            result.o[row * HEAD_DIM + i / 2 * 8 + lane_index() % 4 * 2 + i % 2] =
                O[i / 2][half * 2 + i % 2] / sum;
        }
      },
      config);
  result.calls = ex15::calls;
  return result;
}

// The right loop, and each mistake as a change to it.
static void wait_with(const Changes& is, bool for_S, Scores& S, Output& O) {
  const int groups = for_S ? is.integer("wait-s", 1) : is.integer("wait-o", 0);
  if (groups < 0) return;
  if (for_S && is("first-names-both")) return ex15::wgmma_wait<0>(S, O);
  if (is("nobody") || (is("s-only") && !for_S))
    return groups ? ex15::wgmma_wait<1>() : ex15::wgmma_wait<0>();
  if (for_S != is("exchanged")) return groups ? ex15::wgmma_wait<1>(S) : ex15::wgmma_wait<0>(S);
  groups ? ex15::wgmma_wait<1>(O) : ex15::wgmma_wait<0>(O);
}

static void attend_with_next_scores(Steps& steps, Scores& S, Weights& P, Output& O, int num_tiles) {
  steps.begin_scores(S, 0);
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) {
      steps.begin_scores(S, tile + 1);
      ex15::wgmma_wait<1>(S);
    } else {
      ex15::wgmma_wait<0>(S);
    }
    const Factors factors = steps.softmax(S, tile);
    steps.rescale(O, factors);
    steps.pack(P, S);
    steps.begin_output(O, P, tile);
    ex15::wgmma_wait<0>(O);
  }
}

static void attend_one_after_the_other(Steps& steps, Scores& S, Weights& P, Output& O,
                                       int num_tiles) {
  for (int tile = 0; tile < num_tiles; ++tile) {
    steps.begin_scores(S, tile);
    ex15::wgmma_wait<0>(S);
    const Factors factors = steps.softmax(S, tile);
    steps.rescale(O, factors);
    steps.pack(P, S);
    steps.begin_output(O, P, tile);
    ex15::wgmma_wait<0>(O);
  }
}

static void attend_with(const Changes& is, Steps& steps, Scores& S, Weights& P, Output& O,
                        int num_tiles) {
  if (is("next-scores-before-the-softmax"))
    return attend_with_next_scores(steps, S, P, O, num_tiles);
  if (is("one-after-the-other")) return attend_one_after_the_other(steps, S, P, O, num_tiles);
  Factors previous = {{1, 1}};
  if (!is("first-tile-forgotten")) {
    steps.begin_scores(S, 0);
    if (!is("first-wait-forgotten")) ex15::wgmma_wait<0>(S);
    previous = steps.softmax(S, is.integer("first-softmax", 0));
    if (!is.any("first-pack-forgotten", "pack-behind-the-next-scores", "pack-forgotten"))
      steps.pack(P, S);
  }
  const int end = num_tiles + is("one-turn-too-many") - is("last-tile-left-out");
  for (int tile = is("first-tile-twice") ? 0 : 1; tile < end; ++tile) {
    const auto output = [&] {
      if (is.any("before-next", "last-rescale-forgotten")) steps.rescale(O, previous);
      steps.begin_output(O, P, is("output-of-this-tile") ? tile : tile - 1);
    };
    if (is("output-before-the-scores")) output();
    steps.begin_scores(S, tile);
    if (is("pack-behind-the-next-scores")) steps.pack(P, S);
    const bool late = is.any("output-behind-the-wait", "softmax-between");
    if (!late && !is("output-before-the-scores")) output();
    if (late) {
      ex15::wgmma_wait<0>(S);
    } else {
      wait_with(is, true, S, O);
    }
    if (is("output-behind-the-wait")) output();
    const Factors factors = steps.softmax(S, tile + is.integer("softmax-tile", 0));
    if (is("softmax-between")) output();
    if (is("pack-before-the-wait")) steps.pack(P, S);
    if (is("rescale-before-the-wait")) steps.rescale(O, factors);
    wait_with(is, false, S, O);
    const bool by_previous = is.any("previous", "previous-and-last");
    if (by_previous) steps.rescale(O, previous);
    if (!by_previous && !is.any("rescale-before-the-wait", "never-rescaled", "behind-pack",
                                "before-next", "last-rescale-forgotten"))
      steps.rescale(O, factors);
    if (is("rescaled-twice")) steps.rescale(O, factors);
    if (!is.any("pack-before-the-wait", "pack-behind-the-next-scores", "pack-forgotten"))
      steps.pack(P, S);
    if (is("behind-pack")) steps.rescale(O, factors);
    previous = factors;
  }
  if (is("last-output-forgotten")) return;
  if (is("pack-behind-the-next-scores")) steps.pack(P, S);
  if (is("before-next")) steps.rescale(O, previous);
  steps.begin_output(O, P, num_tiles - 1 - is("last-output-of-the-tile-before"));
  if (is("last-output-twice")) steps.begin_output(O, P, num_tiles - 1);
  if (is("wait-one")) ex15::wgmma_wait<1>(O);
  if (!is.any("no-wait", "wait-one")) ex15::wgmma_wait<0>(O);
  if (is("previous-and-last")) steps.rescale(O, previous);
}

// All that a mistake must explain.
static std::string shown(const Run& run) {
  std::string all = run.first + exercise::hazard_kinds(run.report);
  for (const fa::simt::Hazard& hazard : run.report.hazards)
    for (const char* const words :
         {"without a wgmma_fence", "does not name them", "writes accumulator",
          "writes a register of operand A", "ends while", "that another wgmma in flight has"})
      if (hazard.text.find(words) != std::string::npos) all += std::string(words) + "\n";
  for (size_t i = 0; i < run.o.size(); i += 37)
    all += (std::isnan(run.o[i]) ? "NaN" : exercise::text(run.o[i])) + " ";
  all += std::to_string(run.queued) + " queued, " + std::to_string(run.overlapped);
  // Distinguishes mistakes with otherwise equal results.
  return all + (run.calls.find("wait<1>") == std::string::npos ? "" : ", a wait for one");
}

static std::string message_of(const Inputs& inputs, const Run& run,
                              const exercise::Numbers& expected) {
  const std::string found = exercise::hazards(run.report) + run.first;
  const std::string differs = exercise::difference({"o", HEAD_DIM, 2e-2}, run.o, expected);
  if (!found.empty() || !differs.empty()) return found + differs;
  const int turns = inputs.num_tiles - 1;
  const auto times = [&](int seen) {
    return std::to_string(seen) + " of " + std::to_string(turns) + " times";
  };
  if (run.overlapped < turns)
    return "the output is right, but nothing overlaps as it should: a softmax was computed while "
           "an output was in flight " +
           times(run.overlapped);
  if (run.queued < turns)
    return "the output is right, but the tensor cores run dry: an output was issued while scores "
           "were in flight " +
           times(run.queued);
  return "";
}

static const exercise::Table MISTAKES(R"(
last-output-forgotten
  the output of the last tile was never added. After the loop one product is left
last-output-not-waited: no-wait; wait-one
  the last output was issued and not waited for. After it wgmma_wait<0>(O) is needed, because no
  younger group may stay in flight
last-output-twice
  the output of the last tile was added twice
first-tile-forgotten
  the loop takes the weights of the tile before, and tile 0 has none: its scores, softmax and
  packing belong before the loop
first-tile-twice
  the loop begins with tile 0, which was done before it: it begins with tile 1
first-pack-forgotten
  the weights of tile 0 were not packed before the loop, so that its first output multiplies by an
  uninitialized P
first-wait-forgotten
  the softmax of tile 0 does not wait for its scores
nothing-overlaps: one-after-the-other; {,output-before-the-scores }wait-s=0 {,wait-o=-1};
    {,wait-o=-1 }first-names-both; softmax-between
  nothing is in flight while a softmax is computed: one product is issued after the other has ended,
  or the wait before the softmax is for both
next-scores-before-the-softmax
  the next scores were issued before this softmax. There is one S, and its registers belong to them
  now. Overlap the output of the previous tile with the softmax instead
output-behind-the-wait
  the output is issued when the scores have ended: until then the tensor cores had nothing else to
  do. Issue both, then wait for the older one
output-before-the-scores
  the output is issued before the scores, so that wgmma_wait<1> ends the output and leaves the
  scores in flight, which the softmax needs
scores-not-waited: wait-s=-1
  the softmax takes scores that are still in flight: wgmma_wait<1>(S) belongs before it
output-not-waited: wait-o=-1; wait-o=1
  O and P are used while the output is in flight: wgmma_wait<0>(O) belongs after the softmax
waits-exchanged: wait-s=0 wait-o=1
  wgmma_wait<1> belongs before the softmax, where the output may stay in flight, and wgmma_wait<0>
  after it
wait-names-another: exchanged; s-only; nobody
  a wait names other registers than those that it returns: the compiler may then read them before
  it
rescale-before-the-wait
  O was rescaled before wgmma_wait<0>(O): until then its registers belong to the product
pack-before-the-wait
  P was packed before wgmma_wait<0>(O): the product in flight still reads it
both-before-the-wait: pack-before-the-wait rescale-before-the-wait
  O was rescaled and P packed before wgmma_wait<0>(O): until then the product in flight has both
pack-behind-the-next-scores
  P was packed when the next scores had been issued: S is in flight by then
pack-forgotten
  P was not packed in the loop, or never: each output multiplies by weights of another tile
never-rescaled
  O was not rescaled: earlier tiles keep weights by a maximum that has grown since
factors-one-tile-late: previous; previous-and-last
  O was rescaled one tile late, by the factors of the tile before: they do not hold for the output
  that was added since
rescaled-twice
  O was rescaled twice in an iteration
last-rescale-forgotten
  O is rescaled before each output in the loop, but not before the last output, after the loop
output-of-this-tile
  the output was issued for this tile, and P has the weights of the tile before: V of tile - 1
  belongs to them
last-output-of-the-tile-before
  after the loop the output of the last tile is left, num_tiles - 1. Its weights were multiplied by
  V of the previous tile
mask-of-another-tile: softmax-tile={-1,1}; softmax-tile=-1 first-softmax=-1;
    softmax-tile=1 first-softmax=1
  softmax was given the number of another tile: the keys that are missing are masked in the wrong
  one, or nowhere
last-tile-left-out
  the loop ends one iteration too early: scores and softmax of the last tile are missing
one-turn-too-many
  the loop has one iteration more than there are tiles: < and not <=
)");

static void check_tiles(int num_tiles) {
  const Inputs inputs(num_tiles);
  const exercise::Numbers expected = inputs.expected();
  const Run seen = run(inputs, [](auto&&... args) { ex15::attend(args...); });
  const std::string message = message_of(inputs, seen, expected);
  std::vector<exercise::Look> looks;
  for (const exercise::Row& row : MISTAKES) {
    const Run other = run(inputs, [&](auto&&... args) { attend_with(row.changes, args...); });
    looks.push_back({row.name, shown(other), row.explanation});
    CAPTURE(row.name);
    if (num_tiles == 5) CHECK(message_of(inputs, other, expected) != "");
  }
  exercise::check_shown(message.empty(), "calls: " + seen.calls + "\n" + message, shown(seen),
                        looks);
}

TEST_CASE("one tile") { check_tiles(1); }
TEST_CASE("two tiles") { check_tiles(2); }
TEST_CASE("five tiles") { check_tiles(5); }

TEST_CASE("other right answers") {
  for (const char* const change : {"", "behind-pack", "before-next"})
    for (const int num_tiles : {1, 5}) {
      const Changes is(change);
      const Inputs inputs(num_tiles);
      CHECK(message_of(inputs, run(inputs, [&](auto&&... args) { attend_with(is, args...); }),
                       inputs.expected()) == "");
    }
}
