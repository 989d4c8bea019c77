#include <doctest/doctest.h>

#include <algorithm>
#include <rounds.hpp>
#include <stdexcept>

#include "exercises/support/warp.hpp"

using namespace emulator;

constexpr int WARPS = 4;

// The tiles of a consumer. moves has for each warp a letter for each tile; 'M': a maximum moves,
// 'm': it moves the exact way, and on demand the tile is good enough; '.': it does not move.
struct Case {
  int end, clear_begin, clear_end;
  std::string moves[WARPS];

  bool moved(int warp, int tile, bool exact) const {
    const char letter = tile < std::ssize(moves[warp]) ? moves[warp][tile] : '.';
    return letter == 'M' || (letter == 'm' && exact);
  }
};

struct Run {
  std::string modes[WARPS];  // for each tile; x: exact, d: on demand, 2: twice, -: not at all
  int last[WARPS] = {-1, -1, -1, -1};
  std::string notes[WARPS];  // the first other error
  std::string hazards, kinds;

  std::string shown() const {
    std::string all = kinds;
    for (int warp = 0; warp < WARPS; ++warp) all += modes[warp] + notes[warp] + "\n";
    return all;
  }
};

struct Steps {
  Run& run;
  const Case& c;

  bool step(int tile, bool exact, int line, const char* file) const {
    const int warp = warp_index();
    if (lane_index() == 0) {
      std::string& note = run.notes[warp];
      if (tile < 0 || tile >= c.end) {
        if (note.empty()) note = "  there is no tile " + std::to_string(tile);
      } else {
        char& mode = run.modes[warp][tile];
        mode = mode != '-' ? '2' : exact ? 'x' : 'd';
        if (tile < run.last[warp] && note.empty())
          note =
              "  tile " + std::to_string(tile) + " comes behind " + std::to_string(run.last[warp]);
        run.last[warp] = tile;
      }
    }
    warp_sync(line, file);
    return c.moved(warp, tile, exact);
  }
  bool exact(int tile, FA_SITE) const { return step(tile, true, line, file); }
  bool on_demand(int tile, FA_SITE) const { return step(tile, false, line, file); }
};

template <class Consume>
static Run run(const Case& c, Consume consume) {
  Run result;
  for (std::string& modes : result.modes) modes = std::string(c.end, '-');
  fa::simt::Config config;
  config.counters = false;
  try {
    const fa::simt::Report report = exercise::run_block(
        32 * WARPS, 0,
        [&] {
          Steps steps{result, c};
          consume(steps);
        },
        config);
    result.hazards = exercise::hazards(report);
    result.kinds = exercise::hazard_kinds(report);
  } catch (const std::runtime_error& error) {
    result.hazards = std::string(error.what()) + "\n";
    result.kinds = "thrown\n";
  }
  return result;
}

// The right loop, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  int next(int n, int clear_begin) const {
    const int from = std::max(clear_begin, 1);
    if (is("rounds-from-the-edge"))
      return n - clear_begin < 4 ? clear_begin + 4 : from + ((n - from) / 8 + 1) * 8;
    int power = 4;
    while (power <= n) power *= 2;
    return is("one-early")         ? n < 3 ? 3 : (n + 1) / 8 * 8 + 7
           : is("one-late")        ? n < 5 ? 5 : (n - 1) / 8 * 8 + 9
           : is("fours")           ? (n / 4 + 1) * 4
           : is("eights")          ? (n / 8 + 1) * 8
           : is("twelve")          ? n < 4 ? 4 : n + 8
           : is("four-and-eights") ? (n + 4) / 8 * 8 + 4
           : is("double")          ? power
           : is("never")           ? 1 << 20
           : n < 4                 ? 4
                                   : (n / 8 + 1) * 8;
  }
  bool any(bool moved, int n) const {
    if (is("own")) return moved;
    if (is("own-barrier")) return barrier_red_or(1 + warp_index(), 32, moved);
    if (is("not-all-vote")) return moved && barrier_red_or(1, 128, moved);
    return !(is("from-8") && n < 8) && barrier_red_or(1, 128, moved);
  }
  void consume(Steps& steps, int end, int clear_begin, int clear_end) const {
    if (is("ignores-edges")) clear_begin = 0, clear_end = end;
    const bool first = is("first-tile-on-demand") ? steps.on_demand(0) : steps.exact(0);
    bool moved = is("first-tile-counted") && first;
    int n = 1;
    while (n < end) {
      const bool edge = n < clear_begin || n >= clear_end;
      int round_end = edge                       ? (n < clear_begin ? clear_begin : end)
                      : is("vote-for-each-tile") ? n + 1
                                                 : next(n, clear_begin);
      if (!edge && !is("beyond-clear")) round_end = std::min(round_end, clear_end);
      if (edge || !is("beyond-end")) round_end = std::min(round_end, end);
      bool exact = edge || any(moved, n);
      if (is("ways-exchanged") && !edge) exact = !exact;
      if (is("all-exact")) exact = true;
      if (is("all-on-demand")) exact = edge;
      if (is("begin-on-demand") && n < clear_begin) exact = false;
      if (is("end-on-demand") && n >= clear_end) exact = false;
      if (!is("since-the-beginning") && !(edge && is("edge-counted"))) moved = false;
      bool seen = false;
      for (; n < round_end; ++n) {
        if ((is("clear") && moved) || (is("edges-too") && seen)) continue;
        const bool now = exact ? steps.exact(n) : steps.on_demand(n);
        seen = seen || now;
        if (is("only-misses-count") && exact) continue;
        if (is("only-exact") && !exact) continue;
        if (edge && !is("edge-counted")) continue;
        moved = is("last-tile-only") ? now : moved || now;
      }
    }
  }
};

static const exercise::Table MISTAKES(R"(
own-warp-only: own; own-barrier
  each warp asked its own maxima, and the four go different ways. A wgmma is all four's, so they
  vote: barrier_red_or over 128 threads
not-all-vote
  only warps in which a maximum moved call barrier_red_or. It waits for all 128 threads
since-the-beginning
  what moved once counts for ever, and the loop never returns to on demand: only the last round
  counts. Clear the flag behind each vote
last-tile-only
  only the last tile of a round counts: moved |= …, not moved = …
only-misses-count
  in exact rounds nothing is counted, so that after each of them the next is on demand, and may miss
  again. A maximum that an exact tile raises counts, too
never-exact: never; only-exact; all-on-demand
  no miss makes the next round exact: misses are not counted, or no warp votes, or all tiles are one
  round
first-tile-counted
  tile 0 always raises a maximum, from -inf, and that makes the next round exact. It must not count
edge-counted: edge-counted; first-tile-counted edge-counted
  tiles at an edge were counted, and perhaps tile 0 as one, so that the first round after them is
  exact. They do not count
step-skipped: clear; edges-too
  after || or && a step runs only where the left side has not decided yet, so that tiles are left
  out. |= runs it in any case
other-round-ends: one-early; one-late; fours; eights; twelve; four-and-eights; double; from-8
  rounds do not end before tiles 4, 8, 16, 24 and so on in steps of 8
rounds-from-the-edge
  rounds are counted from clear_begin. They end before tiles 4, 8, 16, whatever clear_begin is
vote-for-each-tile
  each tile follows the previous tile, and votes. A round has one mode and one vote
ways-exchanged
  a round is on demand where a maximum moved, and exact where none did
all-exact
  no tile is on demand. One cause is a flag that tile 0 sets and that is never cleared
first-tile-on-demand
  tile 0 is on demand, but there is no maximum yet
edge-on-demand: begin-on-demand; end-on-demand; begin-on-demand end-on-demand; ignores-edges
  tiles at an edge are on demand. There is a mask to apply, in the exact way
round-not-cut-off: {,beyond-end }beyond-clear; beyond-end
  the last round continues past clear_end, where tiles are masked, or past end
)");

static void check_rounds(const Case& c) {
  const Run got =
      run(c, [&](Steps& steps) { ex16::consume(steps, c.end, c.clear_begin, c.clear_end); });
  const Run expected =
      run(c, [&](Steps& steps) { Way{}.consume(steps, c.end, c.clear_begin, c.clear_end); });
  std::string message = std::to_string(c.end) + " tiles, clear are [" +
                        std::to_string(c.clear_begin) + ", " + std::to_string(c.clear_end) + ")\n" +
                        got.hazards;
  message += "  tile              0   4   8       16      24      32\n";
  for (int warp = 0; warp < WARPS; ++warp) {
    const std::string of = "  warp " + std::to_string(warp);
    message += of + " moves    " + c.moves[warp] + "\n" + of + " got      " + got.modes[warp] +
               got.notes[warp] + "\n";
  }
  message += "  expected        " + expected.modes[0] +
             "    (x: exact, d: on demand; moves: M either way, m only the exact way)";
  const auto looks = exercise::looks<Way>(MISTAKES, [&](const Way& way) {
    return run(c, [&](Steps& steps) { way.consume(steps, c.end, c.clear_begin, c.clear_end); })
        .shown();
  });
  exercise::check_shown(got.hazards.empty() && got.shown() == expected.shown(), message,
                        got.shown(), looks);
}

static Case all_alike(int end, int clear_begin, int clear_end, const std::string& moves) {
  return {end, clear_begin, clear_end, {moves, moves, moves, moves}};
}

TEST_CASE("nothing moves after tile 0") { check_rounds(all_alike(14, 0, 14, "M.............")); }
TEST_CASE("one tile, and three") {
  check_rounds(all_alike(1, 0, 1, "M"));
  check_rounds(all_alike(3, 0, 3, "M.."));
}
TEST_CASE("a miss in the first round") {
  check_rounds(all_alike(20, 0, 20, "M.M................."));
}
TEST_CASE("a miss in one warp") {
  const std::string none = "M.......................";
  check_rounds({24, 0, 24, {none, none, "M....M..................", none}});
}
TEST_CASE("misses at the ends of rounds") {
  check_rounds(all_alike(40, 0, 40, "M..M...........M.......................M"));
  check_rounds(all_alike(40, 0, 40, "M......M...............M................"));
}
TEST_CASE("misses at the begin of rounds") {
  check_rounds(all_alike(40, 0, 40, "M...M...........M......................."));
  check_rounds(all_alike(40, 0, 40, "M.......M...............M..............."));
}
TEST_CASE("exact rounds in which a maximum moves") {
  check_rounds(all_alike(32, 0, 32, "M.M..m...m......................"));
}
TEST_CASE("what would move the exact way, on demand") {
  check_rounds(all_alike(32, 0, 32, "Mmm.m....m......m..............."));
}
TEST_CASE("edges") {
  check_rounds(all_alike(22, 2, 20, "MM..................MM"));
  check_rounds(all_alike(30, 6, 28, "MMMMMM.....M................MM"));
  check_rounds(all_alike(30, 3, 40, "MMM..........................."));
}
TEST_CASE("all is edge") {
  check_rounds(all_alike(5, 5, 5, "MMMMM"));
  check_rounds(all_alike(7, 3, 2, "MMMMMMM"));
}
TEST_CASE("different rows") {
  check_rounds(
      {40,
       1,
       38,
       {"M..M....................................", "M.......M...............M...............",
        "M....m..................................", "M.....................................MM"}});
}
