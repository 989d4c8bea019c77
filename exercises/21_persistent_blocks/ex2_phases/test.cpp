#include <doctest/doctest.h>

#include <phases.hpp>

#include "exercises/support/verdict.hpp"

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  unsigned parity(unsigned used, int n) const {
    const unsigned before = used >> (is("other-buffer") ? 0 : n % 2) & 1;
    return before ^ (n / 2 % 2) ^ (is("previous-phase") ? 1u : 0u);
  }
  unsigned use(unsigned used, int count) const {
    const unsigned in_0 = (count + (is("one-ring") ? 0 : 1)) / 2, in_1 = count / 2;
    const unsigned uses = in_0 % 2 | in_1 % 2 << 1;
    return is("phases-restart") ? 0 : is("replaced") ? uses : used ^ uses;
  }
};
struct Learner {
  unsigned parity(unsigned used, int n) const { return ::parity(used, n); }
  unsigned use(unsigned used, int count) const { return ::use(used, count); }
};

static const exercise::Table MISTAKES(R"(
phases-restart
  `used` is 0 again after each tile of queries. An mbarrier goes on from the phase in which the last
  tile of queries left it
replaced
  `used` holds only the uses of the last tile of queries. Those before it count, too
one-ring
  both buffers got count / 2 tiles. If the count is odd, buffer 0 got one more
other-buffer
  buffer 1 has a bit of its own: bit 1
previous-phase
  the parity is that of the phase before, which is complete: a consumer would not wait. That is
  what the producer waits for, at `empty`
)");

// The parities of all tiles of keys, for tiles of queries with these numbers of tiles of keys.
static void check_parities(const std::vector<int>& counts) {
  exercise::check_output<Way, Learner>({.name = "parity", .tolerance = 0}, MISTAKES,
                                       [&](const auto& answer) {
                                         exercise::Numbers all;
                                         unsigned used = 0;
                                         for (const int count : counts) {
                                           for (int n = 0; n < count; ++n)
                                             all.push_back(answer.parity(used, n));
                                           used = answer.use(used, count);
                                         }
                                         return all;
                                       });
}

TEST_CASE("one tile of queries") { check_parities({5}); }
TEST_CASE("each buffer used twice") { check_parities({4, 4}); }
TEST_CASE("two tiles of keys each time") { check_parities({2, 2, 2}); }
TEST_CASE("an odd number") { check_parities({3, 3, 3, 3}); }
TEST_CASE("one tile of keys each time") { check_parities({1, 1, 1, 1, 1}); }
TEST_CASE("causal, the longest first") { check_parities({6, 5, 4, 3, 2, 1}); }
TEST_CASE("a tile of queries that sees nothing") { check_parities({3, 0, 2, 0, 0, 5}); }

// The answer that this test expects, against a count of the tiles in each buffer.
TEST_CASE("the parities are those of two counters") {
  unsigned used = 0;
  int tiles[2] = {0, 0};
  for (const int count : {3, 0, 7, 2, 1, 1, 5, 6}) {
    for (int n = 0; n < count; ++n)
      CHECK(Way{}.parity(used, n) == static_cast<unsigned>(tiles[n % 2]++ % 2));
    used = Way{}.use(used, count);
  }
}
