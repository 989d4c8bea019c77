#include <doctest/doctest.h>

#include <algorithm>
#include <order.hpp>
#include <set>

#include "exercises/support/verdict.hpp"

constexpr int AT_A_TIME = 132;  // blocks that run, one on each multiprocessor

struct Grid {
  int heads, q_tiles, together;

  int blocks() const { return heads * q_tiles; }
};
const Grid kLaunch = {44, 43, 8};

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  Work work_of(int index, const Grid& grid) const {
    const int full = grid.together * grid.q_tiles;
    const int together = is("none") ? grid.heads : grid.together;
    const int first = is("none")               ? 0
                      : is("of-heads")         ? index / grid.together * grid.together
                      : is("of-tiles")         ? index / grid.q_tiles * grid.together
                      : is("group-for-a-head") ? index / full
                                               : index / full * grid.together;
    const int in_group = is("index-of-the-grid") ? index : index - first * grid.q_tiles;
    const int left = is("full")          ? together
                     : is("at-most-all") ? std::min(together, grid.heads)
                                         : std::min(together, grid.heads - first);
    const int n = left > 0 ? left : 1;
    const bool slow = is("head-slow"), exchanged = is("division-and-remainder-exchanged");
    const int head = slow ? in_group / grid.q_tiles : exchanged ? in_group / n : in_group % n;
    const int tile = slow ? in_group % grid.q_tiles : exchanged ? in_group % n : in_group / n;
    return {
        (is("first-head-forgotten") ? 0 : first) + (is("heads-backwards") ? n - 1 - head : head),
        is("first-tile-first") ? tile : grid.q_tiles - 1 - tile + is("one-tile-too-far")};
  }
};

static const exercise::Table MISTAKES(R"(
last-group-taken-as-full: full; at-most-all
  the last group has fewer heads, and was taken as full: its tiles change after as many blocks as
  it has heads, and heads that do not exist are named
first-tile-first
  tiles go from the first to the last. With a causal mask the last tile sees the most keys, and the
  longest work should begin first
head-after-head: head-slow {,first-tile-first}
  one head goes after the other, each with all its tiles. In a group each tile goes through all
  heads before the next, so that long ones begin early
all-heads-together: none {,first-tile-first}
  all heads are one group: the long tiles are first, and K and V of all heads are read at once,
  more than L2 holds
group-of-blocks: of-heads; of-tiles
  the group was found by index / together, or index / q_tiles. A group has together * q_tiles blocks
group-for-a-head
  the number of the group was taken as its first head. Multiply it by together
index-of-the-grid
  the index in the grid was taken as that in the group: subtract the blocks of the groups before
division-and-remainder-exchanged
  the head is the division and the tile the remainder. The head changes with every block: the
  remainder
one-tile-too-far
  tiles go from q_tiles to 1. They should go from q_tiles - 1 to 0
first-head-forgotten
  each group begins with head 0. Its first head is together times the number of the group
heads-backwards
  the heads of a group go from the last to the first. They must go from the first to the last
)");

template <class Of>
static std::vector<Work> all(const Grid& grid, Of of) {
  std::vector<Work> works;
  for (int index = 0; index < grid.blocks(); ++index) works.push_back(of(index));
  return works;
}

static std::string shown(const std::vector<Work>& works) {
  std::string text;
  for (const Work& work : works)
    text += std::to_string(work.head) + "/" + std::to_string(work.q_tile) + " ";
  return text;
}

// The most heads among the blocks that run at a time.
static int most_heads(const std::vector<Work>& works) {
  size_t most = 0;
  for (size_t begin = 0; begin == 0 || begin + AT_A_TIME <= works.size(); ++begin) {
    std::set<int> heads;
    for (size_t i = begin; i < std::min(begin + AT_A_TIME, works.size()); ++i)
      heads.insert(works[i].head);
    most = std::max(most, heads.size());
  }
  return static_cast<int>(most);
}

// Returns the number of blocks with more keys than the previous block, of the same group of heads.
static int long_behind_short(const Grid& grid, const std::vector<Work>& works) {
  int found = 0;
  for (size_t i = 1; i < works.size(); ++i)
    found += works[i].head / grid.together == works[i - 1].head / grid.together &&
             works[i].q_tile > works[i - 1].q_tile;
  return found;
}

// Some columns of the table in the README, around the first that is wrong.
static std::string table(const std::vector<Work>& got, const std::vector<Work>& expected,
                         size_t first) {
  std::string lines[] = {"  index            ", "  got head         ", "      q_tile       ",
                         "  expected head    ", "           q_tile  "};
  const size_t begin = first < 4 ? 0 : first - 4;
  for (size_t i = begin; i < std::min(begin + 12, got.size()); ++i) {
    const int numbers[] = {static_cast<int>(i), got[i].head, got[i].q_tile, expected[i].head,
                           expected[i].q_tile};
    for (int line = 0; line < 5; ++line) {
      const std::string number = std::to_string(numbers[line]);
      lines[line] +=
          std::string(std::max<int>(1, 5 - static_cast<int>(number.size())), ' ') + number;
    }
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

template <class Of>
static std::string effects(const Grid& grid, const std::vector<Work>& got, Of answer) {
  std::set<std::pair<int, int>> seen;
  int twice = 0, outside = 0;
  for (const Work& work : got) {
    if (work.head < 0 || work.head >= grid.heads || work.q_tile < 0 || work.q_tile >= grid.q_tiles)
      ++outside;
    else if (!seen.insert({work.head, work.q_tile}).second)
      ++twice;
  }
  const auto count = [](int number) { return std::to_string(number); };
  const int missing = grid.blocks() - static_cast<int>(seen.size());
  if (missing > 0)
    return "tiles that no block has: " + count(missing) + " of " + count(grid.blocks()) +
           "; blocks with another's tile: " + count(twice) +
           ", with one that does not exist: " + count(outside);
  const auto works = all(kLaunch, [&](int index) { return answer(index, kLaunch); });
  const auto right = all(kLaunch, [&](int index) { return Way{}.work_of(index, kLaunch); });
  std::string text = "every tile is there once";
  if (const int found = long_behind_short(grid, got))
    text += "; blocks with a longer tile than the previous block in their group: " + count(found);
  if (most_heads(works) != most_heads(right))
    text += "; with " + count(kLaunch.heads) + " heads of " + count(kLaunch.q_tiles) + " tiles, " +
            count(kLaunch.together) + " together, " + count(AT_A_TIME) +
            " blocks in a row have up to " + count(most_heads(works)) + " heads, expected " +
            count(most_heads(right));
  return text;
}

static void check_order(const Grid& grid) {
  const auto answer = [](int index, const Grid& of) {
    return work_of(index, of.heads, of.q_tiles, of.together);
  };
  const auto got = all(grid, [&](int index) { return answer(index, grid); });
  const auto expected = all(grid, [&](int index) { return Way{}.work_of(index, grid); });
  std::string message;
  if (shown(got) != shown(expected)) {
    size_t first = 0;
    while (got[first].head == expected[first].head && got[first].q_tile == expected[first].q_tile)
      ++first;
    message = std::to_string(grid.heads) + " heads, " + std::to_string(grid.q_tiles) +
              " tiles of queries, " + std::to_string(grid.together) + " heads together\n" +
              table(got, expected, first) + effects(grid, got, answer);
  }
  const auto looks = exercise::looks<Way>(MISTAKES, [&](const Way& way) {
    return shown(all(grid, [&](int index) { return way.work_of(index, grid); }));
  });
  exercise::check_shown(message.empty(), message, shown(got), looks);
}

TEST_CASE("one group") { check_order({4, 3, 4}); }
TEST_CASE("two groups") { check_order({6, 4, 3}); }
TEST_CASE("the last group is smaller") { check_order({5, 3, 2}); }
TEST_CASE("each head by itself") { check_order({3, 4, 1}); }
TEST_CASE("more in a group than in all others") { check_order({7, 5, 5}); }
TEST_CASE("one tile for each head") { check_order({9, 1, 4}); }
TEST_CASE("as large as a launch") { check_order(kLaunch); }

// The order that this test expects has every tile once, the longest of a group first, and few heads
// at a time, namely those of two groups, where one ends and the next begins.
TEST_CASE("the order") {
  for (const Grid& grid : {Grid{5, 3, 2}, Grid{7, 5, 5}, kLaunch}) {
    const auto works = all(grid, [&](int index) { return Way{}.work_of(index, grid); });
    std::set<std::pair<int, int>> seen;
    for (const Work& work : works) seen.insert({work.head, work.q_tile});
    CHECK(static_cast<int>(seen.size()) == grid.blocks());
    CHECK(long_behind_short(grid, works) == 0);
  }
  CHECK(most_heads(all(kLaunch, [](int index) { return Way{}.work_of(index, kLaunch); })) ==
        2 * kLaunch.together);
}
