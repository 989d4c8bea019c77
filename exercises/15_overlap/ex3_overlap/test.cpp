#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "common/kernels/wgmma_tile.hpp"
#include "exercises/support/warp.hpp"

// The answer's waits come by here. Of thread 0:
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

using namespace emulator;
using emulator::ex15::KEYS, emulator::ex15::HEAD_DIM, emulator::ex15::Scores,
    emulator::ex15::Weights, emulator::ex15::Output, emulator::ex15::called;

constexpr int THREADS = 128, QUERIES = 64;
constexpr int MISSING = 5;  // keys of the last tile
constexpr float SCALE = 0.125f;
constexpr uint32_t ROW_BYTES = 128, Q_BYTES = QUERIES * ROW_BYTES, TILE_BYTES = KEYS * ROW_BYTES;

// Q, K, V [rows, 64], one behind the other. The keys grow, and the maximum with them; behind the
// last key is what no output may have seen.
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
  std::string first;               // what was wrong first, in words
  int queued = 0, overlapped = 0;  // outputs issued behind scores in flight; softmaxes beside one
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

// The loop as people write it: right as it stands here, and each mistake is a change.
struct Way {
  enum First { kTileZero, kNoFirst, kNoFirstWait, kNoFirstPack, kZeroAgain } first = kTileZero;
  enum Order {
    kScoresOutput,
    kOutputScores,
    kWaitBetween,       // scores, wait, output, softmax
    kSoftmaxBetween,    // scores, wait, softmax, output
    kOneAfterTheOther,  // chapter 14's
    kNextScores         // the next scores before this softmax
  } order = kScoresOutput;
  int wait_S = 1, wait_O = 0;  // -1: none
  enum Names { kOwn, kExchanged, kFirstNamesBoth, kSOnly, kNobody } names = kOwn;
  int output_tile = -1, softmax_tile = 0, first_softmax = 0;
  enum Pack { kPackBehindO, kPackEarly, kPackBehindNext, kPackNever } pack = kPackBehindO;
  enum Rescale {
    kBehindO,
    kBeforeO,
    kNever,
    kPrevious,         // by the factors of the tile before
    kPreviousAndLast,  // and behind the last output by the last
    kTwice,
    kBehindPack,
    kBeforeNext,         // right: before the next output is issued
    kBeforeNextNotLast,  // but not before the last
  } rescale = kBehindO;
  enum Last { kOutput, kNoOutput, kNoWait, kWaitOne, kOutputTwice, kTileBefore } last = kOutput;
  int turns_more = 0;
};

static void wait_with(const Way& way, bool for_S, Scores& S, Output& O) {
  const int groups = for_S ? way.wait_S : way.wait_O;
  if (groups < 0) return;
  if (for_S && way.names == Way::kFirstNamesBoth) return ex15::wgmma_wait<0>(S, O);
  if (way.names == Way::kNobody || (way.names == Way::kSOnly && !for_S))
    return groups ? ex15::wgmma_wait<1>() : ex15::wgmma_wait<0>();
  if (for_S != (way.names == Way::kExchanged))
    return groups ? ex15::wgmma_wait<1>(S) : ex15::wgmma_wait<0>(S);
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

static void attend_with(const Way& way, Steps& steps, Scores& S, Weights& P, Output& O,
                        int num_tiles) {
  if (way.order == Way::kNextScores) return attend_with_next_scores(steps, S, P, O, num_tiles);
  Factors previous = {{1, 1}};
  if (way.first != Way::kNoFirst) {
    steps.begin_scores(S, 0);
    if (way.first != Way::kNoFirstWait) ex15::wgmma_wait<0>(S);
    previous = steps.softmax(S, way.first_softmax);
    if (way.order == Way::kOneAfterTheOther) {
      steps.rescale(O, previous);
      steps.pack(P, S);
      steps.begin_output(O, P, 0);
      ex15::wgmma_wait<0>(O);
    } else if (way.first != Way::kNoFirstPack && way.pack != Way::kPackBehindNext &&
               way.pack != Way::kPackNever) {
      steps.pack(P, S);
    }
  }
  for (int tile = way.first == Way::kZeroAgain ? 0 : 1; tile < num_tiles + way.turns_more; ++tile) {
    if (way.order == Way::kOneAfterTheOther) {
      steps.begin_scores(S, tile);
      ex15::wgmma_wait<0>(S);
      const Factors factors = steps.softmax(S, tile);
      steps.rescale(O, factors);
      steps.pack(P, S);
      steps.begin_output(O, P, tile);
      ex15::wgmma_wait<0>(O);
      continue;
    }
    const auto output = [&] {
      if (way.rescale == Way::kBeforeNext || way.rescale == Way::kBeforeNextNotLast)
        steps.rescale(O, previous);
      steps.begin_output(O, P, tile + way.output_tile);
    };
    if (way.order == Way::kOutputScores) output();
    steps.begin_scores(S, tile);
    if (way.pack == Way::kPackBehindNext) steps.pack(P, S);
    if (way.order == Way::kScoresOutput) output();
    if (way.order == Way::kScoresOutput || way.order == Way::kOutputScores) {
      wait_with(way, true, S, O);
    } else {
      ex15::wgmma_wait<0>(S);
    }
    if (way.order == Way::kWaitBetween) output();
    const Factors factors = steps.softmax(S, tile + way.softmax_tile);
    if (way.order == Way::kSoftmaxBetween) output();
    if (way.pack == Way::kPackEarly) steps.pack(P, S);
    if (way.rescale == Way::kBeforeO) steps.rescale(O, factors);
    wait_with(way, false, S, O);
    if (way.rescale == Way::kBehindO || way.rescale == Way::kTwice) steps.rescale(O, factors);
    if (way.rescale == Way::kTwice) steps.rescale(O, factors);
    if (way.rescale == Way::kPrevious || way.rescale == Way::kPreviousAndLast)
      steps.rescale(O, previous);
    if (way.pack == Way::kPackBehindO) steps.pack(P, S);
    if (way.rescale == Way::kBehindPack) steps.rescale(O, factors);
    previous = factors;
  }
  if (way.order == Way::kOneAfterTheOther || way.last == Way::kNoOutput) return;
  if (way.pack == Way::kPackBehindNext) steps.pack(P, S);
  if (way.rescale == Way::kBeforeNext) steps.rescale(O, previous);
  steps.begin_output(O, P, num_tiles - 1 - (way.last == Way::kTileBefore));
  if (way.last == Way::kOutputTwice) steps.begin_output(O, P, num_tiles - 1);
  if (way.last == Way::kWaitOne) ex15::wgmma_wait<1>(O);
  if (way.last != Way::kNoWait && way.last != Way::kWaitOne) ex15::wgmma_wait<0>(O);
  if (way.rescale == Way::kPreviousAndLast) steps.rescale(O, previous);
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
  // What tells two mistakes apart that lead to the same.
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

using Wrong = exercise::Wrong<Way>;

static std::vector<Wrong> wrong_ways() {
  using W = Way;
  return {
      {"last-output-forgotten",
       "the output of the last tile was never added: behind the loop one product is left",
       {{.last = W::kNoOutput}}},
      {"last-output-not-waited",
       "the last output was issued and not waited for: behind it wgmma_wait<0>(O) is needed, as no "
       "younger group may go on",
       {{.last = W::kNoWait}, {.last = W::kWaitOne}}},
      {"last-output-twice",
       "the output of the last tile was added twice",
       {{.last = W::kOutputTwice}}},
      {"first-tile-forgotten",
       "the loop takes the weights of the tile before, and tile 0 has none: its scores, softmax "
       "and packing belong before the loop",
       {{.first = W::kNoFirst}}},
      {"first-tile-twice",
       "the loop begins with tile 0, which was done before it: it begins with tile 1",
       {{.first = W::kZeroAgain}}},
      {"first-pack-forgotten",
       "the weights of tile 0 were not packed before the loop: its first output multiplies by a P "
       "that nobody has written",
       {{.first = W::kNoFirstPack}}},
      {"first-wait-forgotten",
       "the softmax of tile 0 does not wait for its scores",
       {{.first = W::kNoFirstWait}}},
      {"nothing-overlaps",
       "while a softmax is computed, nothing is in flight: one product is issued behind the other, "
       "or the wait in front of the softmax is for both",
       {{.order = W::kOneAfterTheOther},
        {.wait_S = 0},
        {.wait_S = 0, .wait_O = -1},
        {.names = W::kFirstNamesBoth},
        {.wait_O = -1, .names = W::kFirstNamesBoth},
        {.order = W::kOutputScores, .wait_S = 0},
        {.order = W::kOutputScores, .wait_S = 0, .wait_O = -1},
        {.order = W::kSoftmaxBetween}}},
      {"next-scores-before-the-softmax",
       "the next scores were issued before this softmax, and there is one S: its registers belong "
       "to them now. What may run beside the softmax is the output of the tile before",
       {{.order = W::kNextScores}}},
      {"output-behind-the-wait",
       "the output is issued when the scores have ended: until then the tensor cores had nothing "
       "else to do. Issue both, then wait for the older one",
       {{.order = W::kWaitBetween}}},
      {"output-before-the-scores",
       "the output is issued before the scores, so wgmma_wait<1> ends the output and lets the "
       "scores go on, which the softmax needs",
       {{.order = W::kOutputScores}}},
      {"scores-not-waited",
       "the softmax takes scores that are still in flight: wgmma_wait<1>(S) belongs before it",
       {{.wait_S = -1}}},
      {"output-not-waited",
       "O and P are used while the output is in flight: wgmma_wait<0>(O) belongs behind the "
       "softmax",
       {{.wait_O = -1}, {.wait_O = 1}}},
      {"waits-exchanged",
       "wgmma_wait<1> belongs before the softmax, where the output may go on, and wgmma_wait<0> "
       "behind it",
       {{.wait_S = 0, .wait_O = 1}}},
      {"wait-names-another",
       "a wait names other registers than those that it returns: the compiler may then read them "
       "before it",
       {{.names = W::kExchanged}, {.names = W::kSOnly}, {.names = W::kNobody}}},
      {"rescale-before-the-wait",
       "O was rescaled before wgmma_wait<0>(O): until then its registers belong to the product",
       {{.rescale = W::kBeforeO}}},
      {"pack-before-the-wait",
       "P was packed before wgmma_wait<0>(O): the product in flight still reads it",
       {{.pack = W::kPackEarly}}},
      {"both-before-the-wait",
       "O was rescaled and P packed before wgmma_wait<0>(O): until then the product in flight has "
       "both",
       {{.pack = W::kPackEarly, .rescale = W::kBeforeO}}},
      {"pack-behind-the-next-scores",
       "P was packed when the next scores had been issued: S is in flight by then",
       {{.pack = W::kPackBehindNext}}},
      {"pack-forgotten",
       "P was not packed in the loop, or never: each output multiplies by weights of another tile",
       {{.pack = W::kPackNever}}},
      {"never-rescaled",
       "O was not rescaled: earlier tiles keep weights by a maximum that has grown since",
       {{.rescale = W::kNever}}},
      {"factors-one-tile-late",
       "O was rescaled one tile late, by the factors of the tile before: they do not hold for the "
       "output that was added since",
       {{.rescale = W::kPrevious}, {.rescale = W::kPreviousAndLast}}},
      {"rescaled-twice", "O was rescaled twice in a turn", {{.rescale = W::kTwice}}},
      {"last-rescale-forgotten",
       "O is rescaled before each output in the loop, and not before the last one, behind it",
       {{.rescale = W::kBeforeNextNotLast}}},
      {"output-of-this-tile",
       "the output was issued for this tile, and P has the weights of the tile before: V of tile - "
       "1 belongs to them",
       {{.output_tile = 0}}},
      {"last-output-of-the-tile-before",
       "behind the loop the output of the last tile is left, num_tiles - 1; its weights were "
       "multiplied by V of the tile before",
       {{.last = W::kTileBefore}}},
      {"mask-of-another-tile",
       "softmax was given the number of another tile: the keys that are missing are masked in the "
       "wrong one, or nowhere",
       {{.softmax_tile = -1},
        {.softmax_tile = 1},
        {.softmax_tile = -1, .first_softmax = -1},
        {.softmax_tile = 1, .first_softmax = 1}}},
      {"last-tile-left-out",
       "the loop ends one turn too early: scores and softmax of the last tile are missing",
       {{.turns_more = -1}}},
      {"one-turn-too-many",
       "the loop takes one turn more than there are tiles: < and not <=",
       {{.turns_more = 1}}},
  };
}

static void check_tiles(int num_tiles) {
  const Inputs inputs(num_tiles);
  const exercise::Numbers expected = inputs.expected();
  const Run seen = run(inputs, [](auto&&... args) { ex15::attend(args...); });
  const std::string message = message_of(inputs, seen, expected);
  std::vector<exercise::Look> looks;
  for (const Wrong& wrong : wrong_ways())
    for (const Way& way : wrong.ways) {
      const Run other = run(inputs, [&](auto&&... args) { attend_with(way, args...); });
      looks.push_back({wrong.name, shown(other), wrong.explanation});
      CAPTURE(std::string(wrong.name));
      if (num_tiles == 5) CHECK(message_of(inputs, other, expected) != "");
    }
  exercise::check_shown(message.empty(), "calls: " + seen.calls + "\n" + message, shown(seen),
                        looks);
}

TEST_CASE("one tile") { check_tiles(1); }
TEST_CASE("two tiles") { check_tiles(2); }
TEST_CASE("five tiles") { check_tiles(5); }

TEST_CASE("other right answers") {
  using W = Way;
  for (const Way& way : {W{}, W{.rescale = W::kBehindPack}, W{.rescale = W::kBeforeNext}})
    for (const int num_tiles : {1, 5}) {
      const Inputs inputs(num_tiles);
      CHECK(message_of(inputs, run(inputs, [&](auto&&... args) { attend_with(way, args...); }),
                       inputs.expected()) == "");
    }
}
