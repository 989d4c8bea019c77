#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <turns.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  bool ascends(const Grid& grid) const {
    return is("longest-first") ||
           !(grid.causal || is.any("descending", "one-tile-too-far", "plain-descends"));
  }
  int kv_tile_of(int block, const Grid& grid) const {
    if (is("one-tile-too-far")) return grid.kv_tiles - block;
    return ascends(grid) ? block : grid.kv_tiles - 1 - block;
  }
  int turn_of(int kv_tile, int q_tile, const Grid& grid) const {
    const int from_last = grid.last_kv_tile(q_tile) - kv_tile;
    const int right = ascends(grid) ? kv_tile : from_last;
    return is("kv-tile")               ? kv_tile
           : is("from-last")           ? from_last
           : is("against-if-plain")    ? (grid.causal     ? right
                                          : ascends(grid) ? from_last
                                                          : kv_tile)
           : is("from-last-of-all")    ? (grid.causal ? grid.kv_tiles - 1 - kv_tile : right)
           : is("distance")            ? (grid.causal ? q_tile - kv_tile : right)
           : is("turn-of-the-queries") ? q_tile
           : is("no-turns")            ? 0
           : is("from-one")            ? right + 1
                                       : right;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int kv_tile_of(int block, const Grid& grid) const { return ::kv_tile_of(block, grid); }
  int turn_of(int kv_tile, int q_tile, const Grid& grid) const {
    return ::turn_of(kv_tile, q_tile, grid);
  }
};

static const exercise::Table MISTAKES(R"(
turns-against-the-launch: descending kv-tile; kv-tile; longest-first from-last; against-if-plain
  turns go one way and blocks start the other way. A block may wait only for those that started
  before it
longest-first
  right, but slow. With a causal mask and blocks in the order of key tiles, every block waits at its
  first tile of queries for all earlier blocks. If the last key tile starts first, no block waits
absent-blocks-counted: from-last-of-all; descending from-last-of-all
  turns are counted from the last key tile of all. A tile of queries that does not see that key tile
  waits for an addition that never comes: count from the last key tile that it sees
tiles-taken-as-square: distance; descending distance
  turns are q_tile - kv_tile. That is right only if tiles are square and queries are as many as
  keys: last_kv_tile(q_tile) - kv_tile
turn-of-the-queries
  turns are numbers of tiles of queries. At each tile of queries the blocks have turns 0, 1, 2, …
no-turns
  every turn is 0, so that the second block waits forever
turns-from-one: from-one; longest-first from-one
  the first turn is 1. No block has added before the first one, so that its turn is 0
one-tile-too-far
  blocks have key tiles kv_tiles to 1. They should be kv_tiles - 1 to 0
)");

struct Block {
  int kv_tile, q_tile = 0;  // where it is, or q_tiles if it has finished
};

// Blocks that start in order, `room` of them at a time. At each step every block whose turn it is
// adds, and goes on to the next tile of queries that sees its keys.
struct Run {
  int steps = 0;
  std::string deadlock;
};

template <class Ways>
static Run run(const Ways& ways, const Grid& grid, int room) {
  std::vector<Block> blocks;  // those that have started
  std::vector<int> added(grid.q_tiles);
  const auto skip = [&](Block& block) {
    while (block.q_tile < grid.q_tiles && grid.last_kv_tile(block.q_tile) < block.kv_tile)
      ++block.q_tile;
  };
  Run result;
  for (;; ++result.steps) {
    const auto runs = [&](const Block& block) { return block.q_tile < grid.q_tiles; };
    while (static_cast<int>(blocks.size()) < grid.kv_tiles &&
           std::count_if(blocks.begin(), blocks.end(), runs) < room) {
      blocks.push_back({ways.kv_tile_of(static_cast<int>(blocks.size()), grid)});
      skip(blocks.back());
    }
    if (std::none_of(blocks.begin(), blocks.end(), runs)) return result;
    std::vector<Block*> moving;
    for (Block& block : blocks)
      if (runs(block) && ways.turn_of(block.kv_tile, block.q_tile, grid) == added[block.q_tile])
        moving.push_back(&block);
    if (moving.empty()) {
      const size_t index = std::find_if(blocks.begin(), blocks.end(), runs) - blocks.begin();
      const Block& waits = blocks[index];
      const int turn = added[waits.q_tile];
      result.deadlock = "deadlock, with room for " + std::to_string(room) + ": block " +
                        std::to_string(index) + " (key tile " + std::to_string(waits.kv_tile) +
                        ") waits at query tile " + std::to_string(waits.q_tile) + " for turn " +
                        std::to_string(turn);
      for (int block = 0; block < grid.kv_tiles; ++block) {
        const int kv_tile = ways.kv_tile_of(block, grid);
        if (kv_tile <= grid.last_kv_tile(waits.q_tile) &&
            ways.turn_of(kv_tile, waits.q_tile, grid) == turn)
          result.deadlock += ", which is that of block " + std::to_string(block) + " (key tile " +
                             std::to_string(kv_tile) + "): it starts later";
      }
      return result;
    }
    for (Block* block : moving) {
      ++added[block->q_tile];
      ++block->q_tile;
      skip(*block);
    }
  }
}

// All that the functions say, which is the tile of each block, and the turns at each tile of
// queries.
template <class Ways>
static std::string shown(const Ways& ways, const Grid& grid) {
  std::string text = "  block                   ";
  const auto cell = [](int number) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < 3 ? 3 - digits.size() : 1, ' ') + digits;
  };
  for (int block = 0; block < grid.kv_tiles; ++block) text += cell(block);
  text += "\n  has key tile            ";
  for (int block = 0; block < grid.kv_tiles; ++block) text += cell(ways.kv_tile_of(block, grid));
  for (int q_tile = 0; q_tile < grid.q_tiles; ++q_tile) {
    text += "\n  query tile" + cell(q_tile) + ", its turn ";
    for (int block = 0; block < grid.kv_tiles; ++block) {
      const int kv_tile = ways.kv_tile_of(block, grid);
      text +=
          kv_tile > grid.last_kv_tile(q_tile) ? "  ." : cell(ways.turn_of(kv_tile, q_tile, grid));
    }
  }
  return text + "\n";
}

// Returns the first error, empty if there is none.
template <class Ways>
static std::string problem(const Ways& ways, const Grid& grid) {
  std::vector<bool> owned(grid.kv_tiles);
  for (int block = 0; block < grid.kv_tiles; ++block) {
    const int kv_tile = ways.kv_tile_of(block, grid);
    if (kv_tile < 0 || kv_tile >= grid.kv_tiles)
      return "block " + std::to_string(block) + " has key tile " + std::to_string(kv_tile) +
             ", which does not exist";
    if (owned[kv_tile])
      return "block " + std::to_string(block) + " has key tile " + std::to_string(kv_tile) +
             ", which another has";
    owned[kv_tile] = true;
  }
  for (int q_tile = 0; q_tile < grid.q_tiles; ++q_tile) {
    const int visitors = grid.last_kv_tile(q_tile) + 1;
    std::vector<bool> taken(visitors);
    for (int kv_tile = 0; kv_tile < visitors; ++kv_tile) {
      const int turn = ways.turn_of(kv_tile, q_tile, grid);
      const bool is_turn = turn >= 0 && turn < visitors;
      if (!is_turn || taken[turn])
        return "query tile " + std::to_string(q_tile) + ": key tile " + std::to_string(kv_tile) +
               " has turn " + std::to_string(turn) +
               (is_turn ? ", which another has"
                        : "; " + std::to_string(visitors) +
                              (visitors == 1 ? " block adds" : " blocks add") +
                              " to it, and the first has turn 0");
      taken[turn] = true;
    }
  }
  for (int room = 1; room <= grid.kv_tiles; ++room) {
    const Run got = run(ways, grid, room);
    if (!got.deadlock.empty()) return got.deadlock;
  }
  const int steps = run(ways, grid, grid.kv_tiles).steps;
  const int enough = run(Way{}, grid, grid.kv_tiles).steps;
  if (steps > enough)
    return "with room for all it takes " + std::to_string(steps) + " steps; " +
           std::to_string(enough) + " are enough";
  return "";
}

static void check_grid(const Grid& grid) {
  std::string message = problem(Answer{}, grid);
  const bool ok = message.empty();
  const std::string got = shown(Answer{}, grid);
  message = std::string(grid.causal ? "causal, " : "not causal, ") + std::to_string(grid.q_tiles) +
            " tiles of queries, " + std::to_string(grid.kv_tiles) + " of keys\n" + got + message;
  std::vector<exercise::Look> looks;
  for (const exercise::Row& row : MISTAKES)
    for (const char* const order : {"", "plain-descends"})
      looks.push_back({row.name, shown(Way{row.changes.with(order)}, grid), row.explanation});
  exercise::check_shown(ok, message, got, looks);
}

TEST_CASE("not causal") { check_grid({3, 3, false, 4, 4, 0}); }
TEST_CASE("not causal, more keys, more queries") {
  check_grid({2, 5, false, 4, 4, 12});
  check_grid({5, 2, false, 4, 4, -12});
}
TEST_CASE("causal, the README's 4 x 4") { check_grid({4, 4, true, 4, 4, 0}); }
TEST_CASE("causal, tiles of keys twice as large") { check_grid({6, 3, true, 2, 4, 0}); }
TEST_CASE("causal, tiles of queries twice as large") { check_grid({3, 6, true, 4, 2, 0}); }
TEST_CASE("causal, more keys than queries") { check_grid({3, 5, true, 4, 4, 8}); }
TEST_CASE("causal, more queries than keys") { check_grid({5, 3, true, 4, 4, -8}); }
TEST_CASE("causal, nothing fits") { check_grid({5, 4, true, 4, 6, 3}); }

// The answer that this test expects is tested, too, because nothing is wrong with it, and with a
// causal mask no block waits.
TEST_CASE("the order") {
  for (const char* const order : {"", "plain-descends"})
    for (const Grid& grid : {Grid{4, 4, true, 4, 4, 0}, Grid{5, 3, false, 4, 4, 0}}) {
      const Way way{exercise::Changes(order)};
      CHECK(problem(way, grid) == "");
      CHECK(run(way, grid, grid.kv_tiles).steps ==
            grid.q_tiles + (grid.causal ? 0 : grid.kv_tiles - 1));
    }
  CHECK(run(Way{exercise::Changes("longest-first")}, {4, 4, true, 4, 4, 0}, 4).steps == 7);
}
