#include <doctest/doctest.h>

#include <string>
#include <turn.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  static int rotation(const Head& head) { return head.q_tiles / head.kv_tiles; }
  int first_tile(int kv_tile, const Head& head) const {
    const int back = head.q_tiles - kv_tile * rotation(head);
    if (is("forward")) return kv_tile * rotation(head);
    return is("all-start-together") ? 0 : is("starts-past-the-end") ? back : back % head.q_tiles;
  }
  int turn_of(int kv_tile, int q_tile, const Head& head) const {
    const auto iteration = [&](int n) {
      const int from = is("turns-of-the-other-direction") ? n * rotation(head)
                       : is("starts-past-the-end")        ? Way{}.first_tile(n, head)
                                                          : first_tile(n, head);
      return (q_tile - from + head.q_tiles) % head.q_tiles;
    };
    int rank = 0;
    for (int n = 0; n < head.kv_tiles; ++n) rank += iteration(n) < iteration(kv_tile);
    if (is("turn-is-the-key-tile") ||
        (is("all-start-together") &&
         !is.any("turn-is-the-key-tile", "iteration-for-turn", "turns-from-one",
                 "turns-of-the-other-direction", "wrap-one-tile-early")))
      return kv_tile;
    if (is("iteration-for-turn")) return iteration(kv_tile);
    if (is("turns-from-one")) return rank + 1;
    if (is("wrap-one-tile-early")) {
      const int first = (head.q_tiles - q_tile) / rotation(head);
      return kv_tile >= first ? kv_tile - first : kv_tile + head.kv_tiles - first;
    }
    return rank;
  }
};
struct Answer {
  int first_tile(int kv_tile, const Head& head) const { return ::first_tile(kv_tile, head); }
  int turn_of(int kv_tile, int q_tile, const Head& head) const {
    return ::turn_of(kv_tile, q_tile, head);
  }
};

static const exercise::Table MISTAKES(R"(
turn-is-the-key-tile
  the turn is the number of the block everywhere. A block that starts further back comes to the last
  tiles first, and waits there
all-start-together
  all blocks start at tile 0, so that block n waits for the n before it
turns-of-the-other-direction
  blocks start n * rotation tiles back, and the turns are those of blocks that start as far
  forward
starts-of-the-other-direction: forward wrap-one-tile-early
  blocks start forward, and the turns are those of blocks that start back
iteration-for-turn
  this is the iteration in which the block comes. Its turn is the number of blocks that come earlier
turns-from-one
  the first turn is 1. A counter starts at 0
wrap-one-tile-early
  at some tiles the division rounds the wrong way, so that the first block that has wrapped around
  is taken for one too many
starts-past-the-end
  block 0 starts at tile q_tiles, which does not exist. Take it modulo q_tiles
)");

// All that the functions say.
template <class Ways>
static std::string shown(const Ways& ways, const Head& head) {
  std::string text;
  for (int n = 0; n < head.kv_tiles; ++n) {
    text += "  block " + std::to_string(n) + " starts at tile " +
            std::to_string(ways.first_tile(n, head)) + ", turns at tiles 0, 1, …:";
    for (int q = 0; q < head.q_tiles; ++q) text += " " + std::to_string(ways.turn_of(n, q, head));
    text += "\n";
  }
  return text;
}

// The first problem, empty if there is none.
template <class Ways>
static std::string problem(const Ways& ways, const Head& head) {
  struct Block {
    int q_tile, left;
  };
  std::vector<Block> blocks;
  for (int n = 0; n < head.kv_tiles; ++n) {
    const int first = ways.first_tile(n, head);
    if (first < 0 || first >= head.q_tiles)
      return "block " + std::to_string(n) + " starts at tile " + std::to_string(first) +
             "; tiles are 0 to " + std::to_string(head.q_tiles - 1);
    blocks.push_back({first, head.q_tiles});
  }
  for (int q = 0; q < head.q_tiles; ++q) {
    std::vector<bool> taken(head.kv_tiles);
    for (int n = 0; n < head.kv_tiles; ++n) {
      const int turn = ways.turn_of(n, q, head);
      if (turn < 0 || turn >= head.kv_tiles || taken[turn])
        return "tile " + std::to_string(q) + ": block " + std::to_string(n) + " has turn " +
               std::to_string(turn) +
               (turn >= 0 && turn < head.kv_tiles
                    ? ", which another block has, too"
                    : "; turns are 0 to " + std::to_string(head.kv_tiles - 1));
      taken[turn] = true;
    }
  }
  std::vector<int> added(head.q_tiles);
  for (int iteration = 0;; ++iteration) {
    std::vector<int> moving;
    int running = 0, waiting = -1;
    for (int n = 0; n < head.kv_tiles; ++n) {
      if (blocks[n].left == 0) continue;
      ++running;
      if (ways.turn_of(n, blocks[n].q_tile, head) == added[blocks[n].q_tile])
        moving.push_back(n);
      else if (waiting < 0)
        waiting = n;
    }
    if (running == 0) return "";
    if (waiting >= 0)
      return std::string(moving.empty() ? "deadlock" : "a block waits") + ": in iteration " +
             std::to_string(iteration) + " block " + std::to_string(waiting) + " is at tile " +
             std::to_string(blocks[waiting].q_tile) + " with turn " +
             std::to_string(ways.turn_of(waiting, blocks[waiting].q_tile, head)) + ", and " +
             std::to_string(added[blocks[waiting].q_tile]) + " blocks have added there";
    for (const int n : moving) {
      Block& block = blocks[n];
      ++added[block.q_tile];
      block.q_tile = (block.q_tile + 1) % head.q_tiles;
      --block.left;
    }
  }
}

static void check_head(const Head& head) {
  const std::string found = problem(Answer{}, head), got = shown(Answer{}, head);
  const auto looks =
      exercise::looks<Way>(MISTAKES, [&](const Way& way) { return shown(way, head); });
  exercise::check_shown(found.empty(),
                        std::to_string(head.q_tiles) + " tiles of queries, " +
                            std::to_string(head.kv_tiles) + " blocks\n" + got + found,
                        got, looks);
}

TEST_CASE("6 tiles, 3 blocks, the README's") { check_head({6, 3}); }
TEST_CASE("4 tiles, 4 blocks") { check_head({4, 4}); }
TEST_CASE("one block") { check_head({5, 1}); }
TEST_CASE("7 tiles, 3 blocks: the last gap is longer") { check_head({7, 3}); }
TEST_CASE("16 tiles, 5 blocks") { check_head({16, 5}); }

// The expected answer, and the one whose blocks start forward, make no block wait. Each mistake has
// a head at which it shows.
TEST_CASE("the order") {
  for (const exercise::Row& row : MISTAKES)
    CHECK(problem(Way{row.changes}, {6, 3}) + problem(Way{row.changes}, {16, 5}) != "");
  for (const Head& head : {Head{6, 3}, Head{7, 3}, Head{4, 4}, Head{16, 5}}) {
    CHECK(problem(Way{}, head) == "");
    CHECK(problem(Way{exercise::Changes("forward")}, head) == "");
    CHECK(problem(Way{exercise::Changes("all-start-together")}, head) != "");
  }
}
