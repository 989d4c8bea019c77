#include <doctest/doctest.h>

#include <algorithm>

#include "exercises/support/warp.hpp"

// The answer's fences, commits and waits call these functions. They count those of thread 0:
namespace emulator::ex13 {
static int commits = 0, fences = 0, longest_wait = 0;  // the largest N
static int uses = 0, uses_before_fence = 0;
inline void wgmma_fence(FA_SITE) {
  if (thread_index() == 0) uses_before_fence = uses, ++fences;
  emulator::wgmma_fence(line, file);
}
inline void wgmma_commit(FA_SITE) {
  if (thread_index() == 0) ++commits;
  emulator::wgmma_commit(line, file);
}
inline void wait_for_groups(int groups, std::initializer_list<const float*> registers, int line,
                            const char* file) {
  if (thread_index() == 0) longest_wait = std::max(longest_wait, groups);
  emulator::detail::wgmma_wait(groups, registers, line, file);
}
template <int N>
void wgmma_wait(FA_SITE) {
  wait_for_groups(N, {}, line, file);
}
template <int N, int N8>
void wgmma_wait(float (&a)[N8][4], FA_SITE) {
  wait_for_groups(N, {&a[0][0]}, line, file);
}
template <int N, int A8, int B8>
void wgmma_wait(float (&a)[A8][4], float (&b)[B8][4], FA_SITE) {
  wait_for_groups(N, {&a[0][0], &b[0][0]}, line, file);
}
}  // namespace emulator::ex13

#include <two_in_flight.hpp>

using exercise::Changes;
using namespace emulator;
using emulator::ex13::KEYS;
using Scores = float[KEYS / 8][4];

constexpr int THREADS = 128, HEAD_DIM = 64;
constexpr uint32_t Q_BYTES = 64 * HEAD_DIM * 2, TILE_BYTES = KEYS * HEAD_DIM * 2;

// The observations of thread 0.
struct Log {
  std::string calls;  // "multiply 0, multiply 1, use 0"
  std::string seen;   // "+": another tile is in flight; for a use, "r": right, "n": NaN, "w": wrong
  std::string unfenced;  // multiplies whose registers were used after the last fence
  std::string first;     // the first error, in words
  int multiplied = 0, used = 0, queued = 0, overlapped = 0;

  void call(const char* what, int tile) {
    calls += (calls.empty() ? "" : ", ") + std::string(what) + " " + std::to_string(tile);
  }
};

// Q is all ones, K of tile t is t + 1, so each score of tile t is 64 (t + 1).
struct Steps {
  Log& log;
  Scores* S_rmem;
  int num_tiles;
  bool apart;               // hazards are kept one for each line, so there is a line for each tile
  int used_at[2] = {0, 0};  // the last use of these registers, counted from 1

  bool writes() const { return thread_index() == 0; }
  Scores& other_than(const Scores& S) const { return &S == &S_rmem[0] ? S_rmem[1] : S_rmem[0]; }
  static bool is_in_flight(const Scores& S) { return S[0][0] != S[0][0]; }  // poison is NaN

  void multiply(Scores& S, int tile, FA_SITE) {
    if (writes()) {
      log.call("multiply", tile);
      log.seen += is_in_flight(other_than(S)) ? "+ " : "- ";
      log.multiplied += 1;
      log.queued += is_in_flight(other_than(S));
    }
    if (tile < 0 || tile >= num_tiles) {
      note("multiply was called for tile " + std::to_string(tile) + ", and there are " +
           std::to_string(num_tiles));
      return;
    }
    if (writes() && used_at[&S != &S_rmem[0]] > ex13::uses_before_fence) {
      log.unfenced += std::to_string(tile) + " ";
      note(
          "multiply " + std::to_string(tile) +
          ": ordinary instructions have used these registers, and there is no wgmma_fence between");
    }
    if (apart) line = tile + 1, file = "multiply";
    const uint32_t Q = dynamic_smem(), K = Q + Q_BYTES + static_cast<uint32_t>(tile) * TILE_BYTES;
    for (uint32_t step = 0; step < HEAD_DIM / 16; ++step) {
      const auto at = [&](uint32_t smem) {
        return wgmma_descriptor(smem + step * 32, 16, 1024, Swizzle::bytes_128);
      };
      wgmma<fa::bf16>(S, at(Q), at(K), step > 0, line, file);
    }
  }

  void use(Scores& S, int tile, FA_SITE) {
    const float score = S[0][0], expected = HEAD_DIM * (tile + 1.0f);
    const bool in_flight = is_in_flight(S), next_in_flight = is_in_flight(other_than(S));
    if (writes()) {
      used_at[&S != &S_rmem[0]] = ++ex13::uses;
      log.call("use", tile);
      log.seen += score == expected ? "r" : in_flight ? "n" : "w";
      log.seen += next_in_flight ? "+ " : "- ";
      if (score != expected)
        note("tile " + std::to_string(tile) + ": expected a score of " + exercise::text(expected) +
             ", got " + (in_flight ? "NaN: it is still in flight" : exercise::text(score)));
      log.used += 1;
      log.overlapped += next_in_flight;
    }
    for (auto& fragment : S)
      for (float& x : fragment) x = 0.5f * x;
  }

  void note(const std::string& text) {
    if (writes() && log.first.empty()) log.first = text + "\n";
  }
};

struct Run {
  Log log;
  fa::simt::Report report;
  int commits = 0, fences = 0, longest_wait = 0;
};

template <class Kernel>
static Run run(int num_tiles, bool apart, Kernel kernel) {
  Run result;
  ex13::commits = ex13::fences = ex13::longest_wait = ex13::uses = ex13::uses_before_fence = 0;
  result.report = exercise::run_block(THREADS, Q_BYTES + num_tiles * TILE_BYTES, [&] {
    const uint32_t words = (Q_BYTES + static_cast<uint32_t>(num_tiles) * TILE_BYTES) / 4;
    for (uint32_t at = static_cast<uint32_t>(thread_index()); at < words; at += THREADS) {
      const int tile = at * 4 < Q_BYTES ? 0 : static_cast<int>((at * 4 - Q_BYTES) / TILE_BYTES);
      const float value = static_cast<float>(tile + 1);
      store_shared<uint32_t>(dynamic_smem() + at * 4, pack_bf16x2(value, value));
    }
    fence_proxy_async();
    block_sync();
    Scores S_rmem[2] = {};
    Steps steps{result.log, S_rmem, num_tiles, apart};
    kernel(steps, S_rmem, num_tiles);
  });
  result.commits = ex13::commits;
  result.fences = ex13::fences;
  result.longest_wait = ex13::longest_wait;
  return result;
}

static void score_in_pairs(bool one_group, Steps& steps, Scores (&S_rmem)[2], int num_tiles);

// The right loop, and each mistake as a change to it.
static void score_with(const Changes& is, Steps& steps, Scores (&S_rmem)[2], int num_tiles) {
  if (is.any("one-group", "two-groups"))
    return score_in_pairs(is("one-group"), steps, S_rmem, num_tiles);
  const auto multiply = [&](int tile, bool in_loop, int registers) {
    const bool no_fence = in_loop
                              ? is.any("fence-once", "behind-in-loop", "before-use", "at-the-top")
                              : is("not-first");
    if (!no_fence && !is.any("no-fence", "behind", "before-commit", "only-before-use"))
      ex13::wgmma_fence();
    const int into = is("one-for-all")               ? 0
                     : is("same-as-this") && in_loop ? 1 - registers
                                                     : registers;
    if (is("commit-before-the-multiply")) ex13::wgmma_commit();
    steps.multiply(S_rmem[into], tile);
    if (is("before-commit")) ex13::wgmma_fence();
    if (!is.any("no-commit", "commit-before-the-multiply",
                in_loop ? "first-only" : "one-group-for-both"))
      ex13::wgmma_commit();
    if (is("behind") || (is("behind-in-loop") && in_loop)) ex13::wgmma_fence();
  };
  const auto multiply_next = [&](int tile) {
    multiply(tile + !is("this-tile-again"), true, (tile + 1) % 2);
  };
  if (!is.any("none", "first-tile-forgotten")) multiply(0, false, 0);
  for (int tile = 0; tile < num_tiles - is("last-tile-forgotten"); ++tile) {
    if (is("at-the-top")) ex13::wgmma_fence();
    const bool has_next = tile + 1 < num_tiles || is("one-tile-too-many");
    Scores& S = S_rmem[is("one-for-all") ? 0 : tile % 2];
    Scores& other = S_rmem[(tile + 1) % 2];
    const bool next_is_there = !is.any("wait-before-the-next", "after-use", "none") && has_next;
    if (is("none")) multiply(tile, true, tile % 2);
    if (next_is_there) multiply_next(tile);
    const bool none =
        is.any("always-none", "none-names-both", "no-wait", "all-behind-use", "only-last");
    const int groups = is("last-tile-not-waited") ? 1
                       : is("two")                ? (next_is_there ? 2 : 0)
                       : is("one-if-next")        ? has_next
                       : is("waits-exchanged")    ? !next_is_there
                                                  : next_is_there && !none;
    const auto wait = [&] {
      const bool next = is("other") || (is("other-but-last") && has_next);
      const float* const named = next                 ? &other[0][0]
                                 : is("always-first") ? &S_rmem[0][0][0]
                                                      : &S[0][0];
      const int line = __builtin_LINE();
      if (is.any("none-names-both", "all-behind-use")) {
        ex13::wait_for_groups(0, {named, &other[0][0]}, line, __FILE__);
      } else if (is("nobody")) {
        ex13::wait_for_groups(groups, {}, line, __FILE__);
      } else {
        ex13::wait_for_groups(groups, {named}, line, __FILE__);
      }
    };
    const bool behind = is.any("behind-use", "all-behind-use");
    if (!is("no-wait") && !behind && !(is("only-last") && next_is_there)) wait();
    if (is("wait-before-the-next") && has_next) multiply_next(tile);
    if (is.any("before-use", "only-before-use")) ex13::wgmma_fence();
    steps.use(is("other-registers-used") ? other : S, tile);
    if (behind) wait();
    if (is("after-use") && has_next) multiply_next(tile);
  }
}

// Two tiles at a time, in one group or in two.
static void score_in_pairs(bool one_group, Steps& steps, Scores (&S_rmem)[2], int num_tiles) {
  for (int tile = 0; tile < num_tiles; tile += 2) {
    const bool both = tile + 1 < num_tiles;
    ex13::wgmma_fence();
    steps.multiply(S_rmem[0], tile);
    if (!one_group) ex13::wgmma_commit();
    if (both) steps.multiply(S_rmem[1], tile + 1);
    if (both || one_group) ex13::wgmma_commit();
    if (one_group) {
      ex13::wgmma_wait<0>(S_rmem[0], S_rmem[1]);
    } else if (both) {
      ex13::wgmma_wait<1>(S_rmem[0]);
    } else {
      ex13::wgmma_wait<0>(S_rmem[0]);
    }
    steps.use(S_rmem[0], tile);
    if (!both) return;
    if (!one_group) ex13::wgmma_wait<0>(S_rmem[1]);
    steps.use(S_rmem[1], tile + 1);
  }
}

// All that a mistake must explain.
static std::string shown(const Run& run) {
  std::string all = run.log.calls + run.log.seen + run.log.unfenced;
  for (const fa::simt::Hazard& hazard : run.report.hazards)
    for (const char* const words :
         {"without a wgmma_fence before it", "without a wgmma_fence since", "does not name them",
          "writes accumulator", "ends while", "that another wgmma in flight has"})
      if (hazard.text.find(words) != std::string::npos)
        all += std::to_string(hazard.where.line) + words;
  if (run.report.hazards.empty()) return all;
  // Distinguishes mistakes with otherwise equal results.
  all += run.commits == 0 ? "no commit" : run.commits < run.log.multiplied ? "some commits" : "";
  if (run.longest_wait > 1) all += "a wait for two";
  if (!run.log.unfenced.empty() || all.find("without a wgmma_fence") != std::string::npos)
    all += run.fences == 0 ? "no fence" : run.fences == 1 ? "one fence" : "fences";
  return all + exercise::hazard_kinds(run.report);
}

static const exercise::Table MISTAKES(R"(
wait-for-all: none-names-both; always-none
  wgmma_wait<0> waits for the next tile, too, so that nothing is in flight when this tile is used.
  wgmma_wait<1> leaves the youngest group in flight
last-tile-not-waited
  no tile follows the last one, so that wgmma_wait<1> leaves the last tile's group in flight
wait-for-too-few: two; last-tile-not-waited wait-before-the-next; one-if-next wait-before-the-next
  the wait leaves this tile's group in flight, too. N is the number of groups that were committed
  after it and before the wait
waits-exchanged
  wgmma_wait<1> belongs where a next tile is in flight, wgmma_wait<0> to the last tile
wait-forgotten: no-wait; only-last
  a tile was used without a wait, while its multiply was still running
wait-behind-the-use: behind-use; all-behind-use
  the wait comes after the use. It belongs before it
fence-forgotten: no-fence; behind; before-commit; not-first {,at-the-top}
  there is no fence before a multiply whose registers ordinary instructions have used. Put a fence
  before each
fence-before-the-use: before-use; only-before-use; behind-in-loop
  each iteration has a fence, but between a multiply and the use. The fence belongs between the use
  and the next multiply into the same registers
in-pairs: one-group; two-groups
  tiles are taken by twos: when the second one is used, nothing is in flight
first-tile-forgotten
  tile 0 was never multiplied: the loop begins with the next one
this-tile-again
  the same tile was multiplied twice, and the next tile was not
other-registers-used
  the tile was used from the registers in which the next one is in flight
fence-once
  there is one fence before the first multiply. The multiply after next uses registers that ordinary
  instructions have used since
commit-forgotten: no-commit; first-only
  a multiply was not committed: it is in no group, and no wait waits for it
one-group-for-both
  the first tile was not committed, so it is in the second one's group, and is waited for with it
commit-before-the-multiply
  the commit comes before the multiply, and closes a group without it
wait-names-another: other; other-but-last; nobody; always-first
  the wait names other registers than those of the tile that it waits for, or none: the compiler
  may then read them before it
same-registers: same-as-this; one-for-all
  the next tile goes to the registers that this one is used from. It has to go to the others
one-after-the-other: none; after-use
  the next multiply begins when this tile has been used: nothing is in flight meanwhile
wait-before-the-next
  the wait comes before the next multiply, so that the tensor core is idle between the end of one
  tile and the beginning of the next
one-tile-too-many
  one more tile was multiplied after the last one
last-tile-forgotten
  the last tile was never used
)");

static void check_tiles(int num_tiles) {
  const auto answer = [](auto&&... args) { ex13::score_tiles(args...); };
  const Run seen = run(num_tiles, false, answer);
  const Run right = run(num_tiles, true, [](auto&&... args) { score_with({}, args...); });
  std::string message = exercise::hazards(seen.report) + seen.log.first;
  if (message.empty() && seen.log.used != num_tiles)
    message = std::to_string(seen.log.used) + " tiles were used, and there are " +
              std::to_string(num_tiles);
  const auto of_uses = [&](int seen_so, int expected) {
    return std::to_string(seen_so) + " of " + std::to_string(expected) + " times";
  };
  if (message.empty() && seen.log.overlapped < right.log.overlapped)
    message =
        "all scores are right, but nothing overlaps as it should: a tile was used while the next "
        "was in flight " +
        of_uses(seen.log.overlapped, right.log.overlapped);
  if (message.empty() && seen.log.queued < right.log.queued)
    message =
        "all scores are right, but two tiles are never in flight: a multiply began while another "
        "was in flight " +
        of_uses(seen.log.queued, right.log.queued);
  const bool ok = message.empty();
  const auto looks = exercise::looks(MISTAKES, [&](const Changes& is) {
    return shown(run(num_tiles, true, [&](auto&&... args) { score_with(is, args...); }));
  });
  exercise::check_shown(ok, "calls: " + seen.log.calls + "\n" + message,
                        shown(run(num_tiles, true, answer)), looks);
}

TEST_CASE("one tile") { check_tiles(1); }
TEST_CASE("two tiles") { check_tiles(2); }
TEST_CASE("five tiles") { check_tiles(5); }
