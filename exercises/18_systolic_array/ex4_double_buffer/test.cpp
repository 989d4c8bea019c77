#include <doctest/doctest.h>

#include <algorithm>
#include <double_buffer.hpp>
#include <string>

#include "exercises/support/verdict.hpp"

// The end of the last tile, if tile i starts gap(before, tile) cycles after the previous tile.
template <class Gap>
static std::int64_t ends(const std::vector<Tile>& tiles, Gap gap, bool all = true) {
  std::int64_t start = 0, end = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (i > 0) start += gap(tiles[i - 1], tiles[i]);
    const std::int64_t own = start + tiles[i].m + tiles[i].k + tiles[i].n - 2;
    end = all ? std::max(end, own) : own;
  }
  return end;
}

// The same, if the weights of every tile begin to arrive in cycle 0, or a tile earlier than they
// do.
static std::int64_t ends_if_weights_begin_early(const std::vector<Tile>& tiles, bool all_at_once) {
  std::int64_t start = 0, before = 0, end = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (i > 0) {
      const std::int64_t weights = (all_at_once ? 0 : before) + tiles[i].k;
      before = start;
      start = std::max(start + tiles[i - 1].m, weights);
    }
    end = std::max(end, start + tiles[i].m + tiles[i].k + tiles[i].n - 2);
  }
  return end;
}

// The same, if the weights of all tiles but the first arrive one tile after the other, from a cycle
// on, and wait for no tile.
static std::int64_t ends_if_weights_never_pause(const std::vector<Tile>& tiles,
                                                std::int64_t weights) {
  std::int64_t start = 0, end = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (i > 0) {
      weights += tiles[i].k;
      start = std::max(start + tiles[i - 1].m, weights);
    }
    end = std::max(end, start + tiles[i].m + tiles[i].k + tiles[i].n - 2);
  }
  return end;
}

static void check_stream(const std::string& what, const std::vector<Tile>& tiles) {
  const auto number = [](std::int64_t cycles) {
    return exercise::Numbers{static_cast<double>(cycles)};
  };
  const auto right = [](const Tile& before, const Tile& tile) {
    return std::max(before.m, tile.k);
  };
  const char* const stream =
      "the weights arrive one tile after the other without a pause. There is one register for "
      "them: those of a tile begin when the tile before starts, so k is counted from there";
  const Tile& last = tiles.back();
  exercise::check_output(
      {"cycles of " + what, 0, 0}, number(stream_cycles(tiles)), number(ends(tiles, right)),
      {{"one-after-the-other",
        number(ends(
            tiles, [](const Tile& b, const Tile&) { return b.m + b.k + b.n - 2; }, false)),
        "each tile waits until the previous tile has drained. It may start right after it"},
       {"weights-not-waited-for",
        number(ends(tiles, [](const Tile& before, const Tile&) { return before.m; })),
        "a tile starts as soon as the previous tile has entered, even if its weights are not there "
        "yet"},
       {"weights-from-cycle-0", number(ends_if_weights_begin_early(tiles, true)),
        "the weights of every tile were loading since cycle 0. They begin when the previous tile "
        "starts, so that k is counted from there"},
       {"weights-a-tile-early", number(ends_if_weights_begin_early(tiles, false)),
        "the weights of a tile began when the tile before the previous one started. Until the "
        "previous tile starts, the second register holds that tile's weights"},
       {"weights-in-one-stream", number(ends_if_weights_never_pause(tiles, 0)), stream},
       {"weights-in-one-stream", number(ends_if_weights_never_pause(tiles, tiles.front().k)),
        stream},
       {"weights-after-the-rows",
        number(ends(tiles, [](const Tile& before, const Tile& tile) { return before.m + tile.k; })),
        "the weights are loaded after the rows have entered. A second register is there to do both "
        "at the same time"},
       {"first-weights-waited-for", number(ends(tiles, right) + tiles.front().k),
        "the first tile starts in cycle 0: its weights are there already"},
       {"weights-of-the-tile-before",
        number(ends(tiles,
                    [](const Tile& before, const Tile&) { return std::max(before.m, before.k); })),
        "wait for the weights of the tile that starts, not for those of the previous tile"},
       {"rows-of-this-tile",
        number(ends(tiles, [](const Tile&, const Tile& tile) { return std::max(tile.m, tile.k); })),
        "the rows to wait for are those of the tile before. This one's have not begun"},
       {"never-drained", number(ends(tiles, right, false) - last.k - last.n + 2),
        "the last tile has entered, but it is finished k + n - 2 cycles later"},
       {"smaller-of-the-two",
        number(ends(tiles, [](const Tile& before,
                              const Tile& tile) { return std::min(before.m, tile.k); })),
        "the rows have entered or the weights are there. A tile needs both, so the later one "
        "counts"},
       {"two-forgotten", number(ends(tiles, right) + 2),
        "a tile takes m + k + n - 2 cycles: its first cycle is the first of its rows and columns, "
        "too"},
       {"columns-waited-for",
        number(ends(tiles,
                    [](const Tile& b, const Tile& t) {
                      return std::max({b.m, t.k, t.n});
                    })),
        "the columns shift their weights at the same time: n of them take no longer than one"},
       {"only-the-last-end", number(ends(tiles, right, false)),
        "a small tile can finish before a large earlier tile: every end counts"}});
}

TEST_CASE("one tile") { check_stream("one tile", {{5, 4, 3}}); }
TEST_CASE("the lesson's two") {
  check_stream("two of 512 by 128 × 128", {{512, 128, 128}, {512, 128, 128}});
}
TEST_CASE("few rows: the weights decide") {
  check_stream("three of 4 by 16 × 8", {{4, 16, 8}, {4, 16, 8}, {4, 16, 8}});
}
TEST_CASE("different tiles") {
  check_stream("different tiles", {{9, 4, 6}, {3, 7, 2}, {8, 12, 5}, {6, 2, 7}});
}
TEST_CASE("wide tiles") { check_stream("wide tiles", {{2, 3, 11}, {4, 3, 12}, {2, 5, 9}}); }
TEST_CASE("weights that take longer and longer") {
  check_stream("weights that take longer", {{2, 3, 3}, {2, 4, 3}, {2, 5, 3}, {2, 30, 3}});
}
TEST_CASE("a small tile after a large tile") {
  check_stream("a small one after a large one", {{2, 9, 9}, {1, 1, 1}});
}
