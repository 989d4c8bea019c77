#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>
#include <who_holds_what.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  Step at_step(int rank, int step, int ranks, int64_t length) const {
    const int who = is("negative-modulo")           ? (rank - step) % ranks
                    : is("ahead")                   ? (rank + step) % ranks
                    : is("one-hop-too-far")         ? (rank + 2 * ranks - step - 1) % ranks
                    : is("one-hop-behind")          ? (rank + ranks - step + 1) % ranks
                    : is("distance-for-difference") ? std::abs(rank - step)
                    : is("stopped-at-rank-zero")    ? std::max(0, rank - step)
                    : is("keys-stay")               ? rank
                    : is("step-for-owner")          ? step
                                                    : (rank + ranks - step) % ranks;
    const int64_t n = is("own-piece-at-every-step") ? rank : is("piece-of-the-step") ? step : who;
    const int64_t small = length / ranks, rest = length % ranks;
    const int64_t large = (length + ranks - 1) / ranks;
    Step now{who, n * length / ranks, (n + 1) * length / ranks, NOBODY, NOBODY};
    if (is("rest-lost") || is("rest-at-the-last")) {
      now.begin = n * small;
      now.end = is("rest-at-the-last") && n == ranks - 1 ? length : (n + 1) * small;
    } else if (is("longer-pieces-first")) {
      now.begin = n * small + std::min(n, rest);
      now.end = (n + 1) * small + std::min(n + 1, rest);
    } else if (is("pieces-rounded-up")) {
      now.begin = std::min(n * large, length);
      now.end = std::min((n + 1) * large, length);
    } else if (is("last-key-excluded")) {
      now.end -= 1;
    } else if (is("size-rounded-down")) {
      now.end = now.begin + small;
    } else if (is("narrowed")) {
      now.begin = static_cast<int32_t>(now.begin);
      now.end = static_cast<int32_t>(now.end);
    } else if (is("product-narrowed")) {
      now.begin = static_cast<int32_t>(n * length) / ranks;
      now.end = static_cast<int32_t>((n + 1) * length) / ranks;
    } else if (is("size-for-end")) {
      now.end -= now.begin;
    }
    if (!is.any("travels-after-the-last-step", "stops-one-step-early", "first-step-stands-still",
                "sent-to-nobody-received") &&
        step == ranks - 1)
      return now;
    if (is("stops-one-step-early") && step >= ranks - 2) return now;
    if (is("first-step-stands-still") && (step == 0 || step == ranks - 1)) return now;
    now.from = (rank + ranks - 1) % ranks;
    now.to = (rank + 1) % ranks;
    if (is("sent-to-nobody-received") && step == ranks - 1) now.to = NOBODY;
    if (is("neighbours-exchanged")) std::swap(now.from, now.to);
    if (is("ring-open-at-rank-zero")) now.from = (rank - 1) % ranks;
    if (is("to-too-far") || is("both-not-wrapped")) now.to = rank + 1;
    if (is("both-not-wrapped")) now.from = rank - 1;
    if (is("owner")) now.from = (rank + 2 * ranks - step - 1) % ranks;
    if (is("by-step")) {
      now.from = (rank + 2 * ranks - step - 1) % ranks;
      now.to = (rank + step + 1) % ranks;
    }
    return now;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  Step at_step(int rank, int step, int ranks, int64_t length) const {
    return ::at_step(rank, step, ranks, length);
  }
};

static const exercise::Table MISTAKES(R"(
negative-modulo
  the owner is negative where step is larger than rank. In C++, % keeps the sign: add ranks before
  you divide
wrong-direction: ahead; ahead neighbours-exchanged
  the owner is rank + step. Keys come from the rank before and go to the rank after, so at step k
  they are those of rank - k
one-hop-too-far
  the owner is that of the next step. At step 0 a rank holds its own keys
one-hop-behind
  the owner is that of the previous step. At step 0 a rank holds its own keys
distance-for-difference
  the owner is |rank - step|. Below 0 the ring continues with the last rank, not with rank 1
stopped-at-rank-zero
  the owner stays 0 once it is. Before rank 0 comes the last rank
keys-stay
  a rank holds its own keys at every step. They travel one rank per step
step-for-owner
  at step k all ranks hold the keys of rank k. Each begins with its own
rest-lost
  the pieces have length / ranks keys, so that no rank holds the remainder: multiply first, then
  divide
size-rounded-down
  end is begin + length / ranks, rounded down. Some pieces are one longer: it is where the next one
  begins
thirty-two-bits: narrowed; product-narrowed
  positions were computed in 32 bits and lost some: a product of ints is an int
rest-at-the-last
  the last piece has the whole rest, up to ranks - 1 keys more than the others, and all wait for
  it: n * length / ranks
longer-pieces-first
  the pieces are as equal as they can be, but others than the program's, where piece n begins at n
  * length / ranks
pieces-rounded-up
  the pieces have length / ranks keys, so that no rank holds the remainder: multiply first, then
  divide
last-key-excluded
  end is the last key. It should be the first one that is not held any more
size-for-end
  end is the number of keys. It should be begin + that
own-piece-at-every-step
  begin and end are those of the rank's own keys. They should be those of the owner's keys
piece-of-the-step
  begin and end are those of piece `step`. They must be those of piece `owner`
neighbours-exchanged
  keys come from the rank after and go to the rank before. It is the other way round
ring-open-at-rank-zero
  rank 0 receives from rank -1, as (rank - 1) % ranks is negative there: add ranks before you
  divide
ring-open-at-the-ends: to-too-far; both-not-wrapped
  the neighbours are rank - 1 and rank + 1, even at the ends. The ring closes: after the last rank
  comes rank 0
straight-from-the-owner: owner; by-step
  keys come directly from the rank that owns them. In a ring they come from the previous rank,
  whichever rank owns them
travels-after-the-last-step
  keys travel after the last step, too, and no rank uses them: NOBODY
stops-one-step-early
  nothing travels after the last step but one. The last step needs keys as well
first-step-stands-still
  nothing travels after step 0. Only after the last step nothing does
sent-to-nobody-received
  after the last step nothing is sent, and still something is received: it would wait forever
)");

static void check_rank(int rank, int ranks, int64_t length) {
  const auto run = [&](const auto& way) {
    Numbers result;
    for (int step = 0; step < ranks; ++step) {
      const Step now = way.at_step(rank, step, ranks, length);
      for (const double number : {double(now.owner), double(now.begin), double(now.end),
                                  double(now.from), double(now.to)})
        result.push_back(number);
    }
    return result;
  };
  exercise::check_output<Way, Answer>(
      {"r" + std::to_string(rank) + ".step", 5, 0, {"owner", "begin", "end", "from", "to"}},
      MISTAKES, run);
}

static void check_ring(int ranks, int64_t length) {
  for (int rank = 0; rank < ranks; ++rank) check_rank(rank, ranks, length);
}

TEST_CASE("2 ranks, 8 keys") { check_ring(2, 8); }
TEST_CASE("4 ranks, 16 keys") { check_ring(4, 16); }
TEST_CASE("the README's: 3 ranks, 10 keys") { check_ring(3, 10); }
TEST_CASE("4 ranks, 23 keys") { check_ring(4, 23); }
TEST_CASE("5 ranks, 3 keys: some have none") { check_ring(5, 3); }
TEST_CASE("one rank") { check_ring(1, 7); }
TEST_CASE("no keys") { check_ring(3, 0); }
TEST_CASE("5 ranks, 2^40 + 3 keys") { check_ring(5, (int64_t{1} << 40) + 3); }

// The answer that this test expects is tested, too, because each piece is with one rank at a time,
// and all ranks see all.
TEST_CASE("the ring") {
  for (const int ranks : {1, 2, 3, 5})
    for (int step = 0; step < ranks; ++step) {
      int64_t keys = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Step now = Way{}.at_step(rank, step, ranks, 13);
        keys += now.end - now.begin;
        if (step < ranks - 1)
          CHECK(Way{}.at_step(now.from, step, ranks, 13).owner ==
                Way{}.at_step(rank, step + 1, ranks, 13).owner);
      }
      CHECK(keys == 13);
    }
}
