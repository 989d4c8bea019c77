#include <doctest/doctest.h>

#include <algorithm>
#include <claims.hpp>

#include "exercises/support/verdict.hpp"

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  std::vector<int> operator()(const std::vector<int>& lengths, int blocks) const {
    std::vector<int> times(blocks);
    size_t claimed = 0;
    for (int& time : times)
      if (claimed < lengths.size()) time = lengths[claimed++];
    if (is("counter-from-zero")) claimed = 0;
    for (; claimed < lengths.size(); ++claimed) {
      auto block = std::min_element(times.begin(), times.end());
      if (is("busiest-block")) block = std::max_element(times.begin(), times.end());
      if (is("turn-by-turn")) block = times.begin() + static_cast<long>(claimed % times.size());
      if (is("larger-number-first"))
        block = times.end() - 1 - (std::min_element(times.rbegin(), times.rend()) - times.rbegin());
      *block += lengths[claimed];
    }
    return times;
  }
};
struct Learner {
  std::vector<int> operator()(const std::vector<int>& lengths, int blocks) const {
    return finish_times(lengths, blocks);
  }
};

static const exercise::Table MISTAKES(R"(
counter-from-zero
  the counter began at 0, so that the first tiles are computed twice. Each block's first tile is its
  own number, and the counter continues after them
turn-by-turn
  the blocks take turns. A block that has finished a short tile then waits for its turn. The block
  that finishes first claims next
busiest-block
  the tile went to the block that finishes last. The block that finishes first claims it
larger-number-first
  of two blocks that finish at the same time, the one with the smaller number claims first
)");

static void check_times(const std::vector<int>& lengths, int blocks) {
  exercise::check_output<Way, Learner>(
      {.name = "time", .tolerance = 0}, MISTAKES,
      [&](const auto& answer) { return exercise::numbers(answer(lengths, blocks)); });
}

TEST_CASE("a tile for each block") { check_times({4, 3, 2}, 3); }
TEST_CASE("fewer tiles than blocks") { check_times({5, 1}, 4); }
TEST_CASE("one block") { check_times({3, 1, 2}, 1); }
TEST_CASE("alike tiles") { check_times({2, 2, 2, 2, 2}, 3); }
TEST_CASE("the longest first") { check_times({8, 7, 6, 5, 4, 3, 2, 1}, 3); }
TEST_CASE("the shortest first") { check_times({1, 2, 3, 4, 5, 6, 7, 8}, 3); }
TEST_CASE("two groups of heads") {
  check_times({4, 4, 3, 3, 2, 2, 1, 1, 4, 4, 3, 3, 2, 2, 1, 1}, 5);
}
