#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>
#include <who_holds_what.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Owner {
    kBehind,
    kNegative,
    kAhead,
    kOneMore,
    kOneLess,
    kAbsolute,
    kClamped,
    kRank,
    kStep
  } owner = kBehind;
  enum Piece {
    kEqual,
    kRestLost,
    kRestAtLast,
    kRestFirst,
    kRoundedUp,
    kInclusive,
    kSize,
    kOfRank,
    kOfStep,
    kEndBySize,
    kNarrowed,
    kProductNarrowed
  } piece = kEqual;
  enum Neighbours {
    kPreviousNext,
    kExchanged,
    kNegativeFrom,
    kToTooFar,
    kBothNotWrapped,
    kOwner,
    kByStep
  } neighbours = kPreviousNext;
  enum Last { kNobody, kTravels, kOneEarly, kFirstToo, kHalf } last = kNobody;

  Step at_step(int rank, int step, int ranks, int64_t length) const {
    const int who = owner == kNegative   ? (rank - step) % ranks
                    : owner == kAhead    ? (rank + step) % ranks
                    : owner == kOneMore  ? (rank + 2 * ranks - step - 1) % ranks
                    : owner == kOneLess  ? (rank + ranks - step + 1) % ranks
                    : owner == kAbsolute ? std::abs(rank - step)
                    : owner == kClamped  ? std::max(0, rank - step)
                    : owner == kRank     ? rank
                    : owner == kStep     ? step
                                         : (rank + ranks - step) % ranks;
    const int64_t n = piece == kOfRank ? rank : piece == kOfStep ? step : who;
    const int64_t small = length / ranks, rest = length % ranks;
    const int64_t large = (length + ranks - 1) / ranks;
    Step now{who, n * length / ranks, (n + 1) * length / ranks, NOBODY, NOBODY};
    if (piece == kRestLost || piece == kRestAtLast) {
      now.begin = n * small;
      now.end = piece == kRestAtLast && n == ranks - 1 ? length : (n + 1) * small;
    } else if (piece == kRestFirst) {
      now.begin = n * small + std::min(n, rest);
      now.end = (n + 1) * small + std::min(n + 1, rest);
    } else if (piece == kRoundedUp) {
      now.begin = std::min(n * large, length);
      now.end = std::min((n + 1) * large, length);
    } else if (piece == kInclusive) {
      now.end -= 1;
    } else if (piece == kEndBySize) {
      now.end = now.begin + small;
    } else if (piece == kNarrowed) {
      now.begin = static_cast<int32_t>(now.begin);
      now.end = static_cast<int32_t>(now.end);
    } else if (piece == kProductNarrowed) {
      now.begin = static_cast<int32_t>(n * length) / ranks;
      now.end = static_cast<int32_t>((n + 1) * length) / ranks;
    } else if (piece == kSize) {
      now.end -= now.begin;
    }
    if (last == kNobody && step == ranks - 1) return now;
    if (last == kOneEarly && step >= ranks - 2) return now;
    if (last == kFirstToo && (step == 0 || step == ranks - 1)) return now;
    now.from = (rank + ranks - 1) % ranks;
    now.to = (rank + 1) % ranks;
    if (last == kHalf && step == ranks - 1) now.to = NOBODY;
    if (neighbours == kExchanged) std::swap(now.from, now.to);
    if (neighbours == kNegativeFrom) now.from = (rank - 1) % ranks;
    if (neighbours == kToTooFar || neighbours == kBothNotWrapped) now.to = rank + 1;
    if (neighbours == kBothNotWrapped) now.from = rank - 1;
    if (neighbours == kOwner) now.from = (rank + 2 * ranks - step - 1) % ranks;
    if (neighbours == kByStep) {
      now.from = (rank + 2 * ranks - step - 1) % ranks;
      now.to = (rank + step + 1) % ranks;
    }
    return now;
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  Step at_step(int rank, int step, int ranks, int64_t length) const {
    return ::at_step(rank, step, ranks, length);
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const not_wrapped =
      "the neighbours are rank - 1 and rank + 1, also at the ends: the ring closes, so after the "
      "last rank comes rank 0";
  static const char* const direct =
      "keys come straight from the rank that owns them; in a ring they come from the rank before, "
      "whoever owns them";
  static const char* const ahead =
      "the owner is rank + step; keys come from the rank before and go to the rank after, so at "
      "step k they are those of rank - k";
  static const char* const narrow =
      "positions were computed in 32 bits and lost some: a product of ints is an int";
  static const char* const negative =
      "the owner is negative where step is larger than rank; % does not mend that in C++, it keeps "
      "the sign: add ranks before you divide";
  static const std::vector<Known> known = {
      {"negative-modulo", {.owner = W::kNegative}, negative},
      {"wrong-direction", {.owner = W::kAhead}, ahead},
      {"wrong-direction", {.owner = W::kAhead, .neighbours = W::kExchanged}, ahead},
      {"one-hop-too-far",
       {.owner = W::kOneMore},
       "the owner is that of the next step; at step 0 a rank has its own keys"},
      {"one-hop-behind",
       {.owner = W::kOneLess},
       "the owner is that of the step before; at step 0 a rank has its own keys"},
      {"distance-for-difference",
       {.owner = W::kAbsolute},
       "the owner is |rank - step|; below 0 it goes on with the last rank, not back with rank 1"},
      {"stopped-at-rank-zero",
       {.owner = W::kClamped},
       "the owner stays 0 once it is; before rank 0 comes the last rank"},
      {"keys-stay",
       {.owner = W::kRank},
       "a rank holds its own keys at every step; they travel one rank a step"},
      {"step-for-owner",
       {.owner = W::kStep},
       "at step k all ranks hold the keys of rank k; each begins with its own"},
      {"rest-lost",
       {.piece = W::kRestLost},
       "the pieces have length / ranks keys; the rest of the division is nobody's: multiply first, "
       "then divide"},
      {"size-rounded-down",
       {.piece = W::kEndBySize},
       "end is begin + length / ranks, rounded down; some pieces are one longer: it is where the "
       "next one begins"},
      {"thirty-two-bits", {.piece = W::kNarrowed}, narrow},
      {"thirty-two-bits", {.piece = W::kProductNarrowed}, narrow},
      {"rest-at-the-last",
       {.piece = W::kRestAtLast},
       "the last piece has the whole rest, up to ranks - 1 keys more than the others, and all wait "
       "for it: n * length / ranks"},
      {"longer-pieces-first",
       {.piece = W::kRestFirst},
       "the pieces are as equal as they can be, but others than the program's, where piece n "
       "begins at n * length / ranks"},
      {"pieces-rounded-up",
       {.piece = W::kRoundedUp},
       "the pieces have length / ranks keys, rounded up, so the last is shorter, or empty, while "
       "the others are full: n * length / ranks"},
      {"last-key-excluded",
       {.piece = W::kInclusive},
       "end is the last key; it is the first one that is not held any more"},
      {"size-for-end", {.piece = W::kSize}, "end is the number of keys; begin + that"},
      {"own-piece-at-every-step",
       {.piece = W::kOfRank},
       "begin and end are those of the rank's own keys; those of the owner's"},
      {"piece-of-the-step",
       {.piece = W::kOfStep},
       "begin and end are those of piece `step`; of piece `owner`"},
      {"neighbours-exchanged",
       {.neighbours = W::kExchanged},
       "keys come from the rank after and go to the rank before; the other way round"},
      {"ring-open-at-rank-zero",
       {.neighbours = W::kNegativeFrom},
       "rank 0 receives from rank -1, as (rank - 1) % ranks is negative there: add ranks before "
       "you divide"},
      {"ring-open-at-the-ends", {.neighbours = W::kToTooFar}, not_wrapped},
      {"ring-open-at-the-ends", {.neighbours = W::kBothNotWrapped}, not_wrapped},
      {"straight-from-the-owner", {.neighbours = W::kOwner}, direct},
      {"straight-from-the-owner", {.neighbours = W::kByStep}, direct},
      {"travels-after-the-last-step",
       {.last = W::kTravels},
       "keys travel after the last step too, and nobody uses what comes: NOBODY"},
      {"stops-one-step-early",
       {.last = W::kOneEarly},
       "nothing travels after the last step but one; the last step needs keys as well"},
      {"first-step-stands-still",
       {.last = W::kFirstToo},
       "nothing travels after step 0; only after the last step nothing does"},
      {"sent-to-nobody-received",
       {.last = W::kHalf},
       "after the last step nothing is sent, and still something is received: it would wait "
       "forever"},
  };
  return known;
}

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
  const auto mistakes = exercise::mistakes(all_known(), run);
  exercise::check_output(
      {"r" + std::to_string(rank) + ".step", 5, 0, {"owner", "begin", "end", "from", "to"}},
      run(Answer{}), run(Way{}), mistakes);
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

// What this test takes for right: each piece is with one rank at a time, and all ranks see all.
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
