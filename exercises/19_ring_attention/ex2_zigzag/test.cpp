#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>
#include <zigzag.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The functions as people write them: right as they stand here, each mistake is a change to them.
struct Way {
  enum Chunk {
    kZigzag,
    kSideBySide,
    kStriped,
    kOneTooFar,
    kOfRanks,
    kInOrderLate,
    kExchanged
  } chunk = kZigzag;
  // From the numbers of the chunks, or from the rule by steps.
  enum Rule {
    kCompared,
    kBySteps,
    kStepBelowRank,
    kHalvesExchanged,
    kAlwaysEarly,
    kAlwaysLate,
    kEverything,
    kOnlyVisiblePieces,
    kLateOnly,
    kDiagonalOmitted,
    kDiagonalAll,
    kStepZeroTriangle,
    kStepZeroAll,
    kStepZeroTriangles,
    kUpsideDown,
    kLateLateOnly,
    kRankForOwner
  } rule = kCompared;
  enum Owner { kBehind, kAhead, kOneMore, kNegative } owner = kBehind;
  enum Pairs {
    kSizes,
    kOwnSizes,
    kEqualSizes,
    kEqualSizesUp,
    kSquareTriangle,
    kStrictTriangle,
    kHalfTriangle,
    kTriangleAsAll,
    kPiecesOfP,
    kChunksOfP,
    kSideBySideSizes,
    kQuartersOnly,
    kTwoChunks,
    kWithoutTriangles,
    kRectangle
  } pairs = kSizes;

  int owner_of(int rank, int step, int ranks) const {
    return owner == kAhead      ? (rank + step) % ranks
           : owner == kOneMore  ? (rank + 2 * ranks - step - 1) % ranks
           : owner == kNegative ? (rank - step) % ranks
                                : (rank + ranks - step) % ranks;
  }
  int chunk_of(int rank, Half half, int ranks) const {
    const bool late = half == LATE;
    switch (chunk) {
      case kSideBySide:
        return 2 * rank + late;
      case kStriped:
        return late ? rank + ranks : rank;
      case kOneTooFar:
        return late ? 2 * ranks - rank : rank;
      case kOfRanks:
        return late ? ranks - 1 - rank : rank;
      case kInOrderLate:
        return late ? rank + 1 : rank;
      case kExchanged:
        return late ? rank : 2 * ranks - 1 - rank;
      default:
        return late ? 2 * ranks - 1 - rank : rank;
    }
  }
  Quarter quarter_at(int rank, int step, int ranks, Half queries, Half keys) const {
    const int whose = rule == kRankForOwner ? rank : owner_of(rank, step, ranks);
    const int q = chunk_of(rank, queries, ranks), k = chunk_of(whose, keys, ranks);
    const Quarter compared = q == k ? TRIANGLE : q > k ? ALL : NOTHING;
    const bool early_half = rule == kStepBelowRank     ? step < rank
                            : rule == kAlwaysEarly     ? true
                            : rule == kAlwaysLate      ? false
                            : rule == kHalvesExchanged ? step > rank
                                                       : step <= rank;
    switch (rule) {
      case kCompared:
      case kRankForOwner:
        return compared;
      case kEverything:
        return ALL;
      case kUpsideDown:
        return q == k ? TRIANGLE : q < k ? ALL : NOTHING;
      case kDiagonalOmitted:
        return q == k ? NOTHING : compared;
      case kDiagonalAll:
        return q >= k ? ALL : NOTHING;
      case kOnlyVisiblePieces:
        return step > rank ? NOTHING : step == 0 ? compared : ALL;
      default:
        break;
    }
    if (step == 0) {
      if (rule == kStepZeroAll) return ALL;
      if (rule == kStepZeroTriangles) return TRIANGLE;
      if (rule == kStepZeroTriangle) return queries == keys ? TRIANGLE : NOTHING;
      return queries == keys ? TRIANGLE : queries == LATE ? ALL : NOTHING;
    }
    if (rule == kLateLateOnly)
      return early_half                        ? (keys == EARLY ? ALL : NOTHING)
             : queries == LATE && keys == LATE ? ALL
                                               : NOTHING;
    if (rule == kLateOnly) return queries == LATE ? ALL : NOTHING;
    if (early_half) return keys == EARLY ? ALL : NOTHING;
    return queries == LATE ? ALL : NOTHING;
  }
  int64_t pairs_at(int64_t length, int rank, int step, int ranks) const {
    const int whose = owner_of(rank, step, ranks);
    const auto size = [&](int of, Half half) -> int64_t {
      if (pairs == kEqualSizes) return length / (2 * ranks);
      if (pairs == kEqualSizesUp) return (length + 2 * ranks - 1) / (2 * ranks);
      if (pairs == kChunksOfP) return ch19::piece(length, ranks, chunk_of(of, half, ranks)).size();
      if (pairs == kSideBySideSizes) return ch19::piece(length, 2 * ranks, 2 * of + half).size();
      if (pairs == kPiecesOfP) return ch19::piece(length, ranks, of).size();
      return ch19::piece(length, 2 * ranks, chunk_of(of, half, ranks)).size();
    };
    int64_t sum = 0;
    for (const Half queries : {EARLY, LATE})
      for (const Half keys : {EARLY, LATE}) {
        const Quarter quarter = quarter_at(rank, step, ranks, queries, keys);
        const int64_t n_q = size(rank, queries);
        const int64_t n_k = size(pairs == kOwnSizes ? rank : whose, keys);
        if (quarter == ALL || pairs == kRectangle) sum += pairs == kQuartersOnly ? 1 : n_q * n_k;
        if (quarter != TRIANGLE || pairs == kRectangle) continue;
        sum += pairs == kSquareTriangle     ? n_q * n_q / 2
               : pairs == kStrictTriangle   ? n_q * (n_q - 1) / 2
               : pairs == kHalfTriangle     ? n_q / 2 * (n_q + 1)
               : pairs == kTriangleAsAll    ? n_q * n_q
               : pairs == kWithoutTriangles ? 0
               : pairs == kQuartersOnly     ? 0
                                            : n_q * (n_q + 1) / 2;
      }
    return pairs == kTwoChunks ? 2 * size(rank, EARLY) * size(whose, EARLY) : sum;
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  int chunk_of(int rank, Half half, int ranks) const { return ::chunk_of(rank, half, ranks); }
  Quarter quarter_at(int rank, int step, int ranks, Half queries, Half keys) const {
    return ::quarter_at(rank, step, ranks, queries, keys);
  }
  int64_t pairs_at(int64_t length, int rank, int step, int ranks) const {
    return ::pairs_at(length, rank, step, ranks);
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const side_by_side =
      "a rank holds two neighbouring chunks, which is what it would hold without zigzag: one from "
      "the front and one from the end";
  static const char* const striped =
      "the late chunks are dealt out from the front again, so the last rank has the later one of "
      "both: the late chunk of rank r is 2P - 1 - r";
  static const char* const one_too_far =
      "the late chunk is 2P - r; chunks are 0 to 2P - 1, so that of rank 0 does not exist";
  static const char* const one_of_p =
      "the late chunk is P - 1 - r, as if there were P chunks; there are 2P";
  static const char* const of_p = "the sizes are those of P pieces; a chunk is one of 2P";
  static const char* const ahead =
      "the keys at step k were taken for those of rank r + k; they come from the rank before: r - "
      "k";
  static const char* const one_more =
      "the keys at step k were taken for those of the next step; at step 0 a rank has its own";
  static const char* const negative =
      "(rank - step) % ranks is negative if step is larger than rank: add ranks before you divide";
  static const std::vector<Known> known = {
      {"chunks-side-by-side", {.chunk = W::kSideBySide}, side_by_side},
      {"chunks-side-by-side", {.chunk = W::kSideBySide, .rule = W::kBySteps}, side_by_side},
      {"chunks-side-by-side", {.chunk = W::kInOrderLate}, side_by_side},
      {"chunks-side-by-side", {.chunk = W::kInOrderLate, .rule = W::kBySteps}, side_by_side},
      {"dealt-from-the-front", {.chunk = W::kStriped}, striped},
      {"dealt-from-the-front", {.chunk = W::kStriped, .rule = W::kBySteps}, striped},
      {"one-chunk-too-far", {.chunk = W::kOneTooFar}, one_too_far},
      {"one-chunk-too-far", {.chunk = W::kOneTooFar, .rule = W::kBySteps}, one_too_far},
      {"chunks-of-p", {.chunk = W::kOfRanks}, one_of_p},
      {"chunks-of-p", {.chunk = W::kOfRanks, .rule = W::kBySteps}, one_of_p},
      {"early-and-late-exchanged",
       {.chunk = W::kExchanged},
       "the early chunk is 2P - 1 - r and the late one r; the other way round"},
      {"early-and-late-exchanged",
       {.chunk = W::kExchanged, .rule = W::kBySteps},
       "the early chunk is 2P - 1 - r and the late one r; the other way round"},
      {"own-keys-a-step-later",
       {.rule = W::kStepBelowRank},
       "at step `rank` the keys of rank 0 are there, whose early chunk all queries see: step <= "
       "rank, not <"},
      {"halves-exchanged",
       {.rule = W::kHalvesExchanged},
       "up to step `rank` the late queries see all keys, and later all queries the early keys; the "
       "other way round"},
      {"always-the-early-keys",
       {.rule = W::kAlwaysEarly},
       "at every step all queries see the early keys; behind step `rank` keys come from a later "
       "rank, whose early chunk is behind one's own"},
      {"always-the-late-queries",
       {.rule = W::kAlwaysLate},
       "at every step the late queries see all keys; up to step `rank` their late chunk is behind "
       "one's own, and the early queries see the early keys"},
      {"nothing-is-hidden",
       {.rule = W::kEverything},
       "all quarters were computed; a query sees no key behind it"},
      {"skipped-as-in-order",
       {.rule = W::kOnlyVisiblePieces},
       "behind step `rank` nothing was computed, and before it everything: that is right for "
       "pieces in order; here late queries see the keys of later ranks"},
      {"late-keys-only",
       {.rule = W::kLateLateOnly},
       "behind step `rank` the late queries were given the late keys only; they see the early ones "
       "as well"},
      {"diagonal-omitted",
       {.rule = W::kDiagonalOmitted},
       "a chunk sees itself too, up to each query's own position: a triangle"},
      {"diagonal-without-mask",
       {.rule = W::kDiagonalAll},
       "a chunk was allowed to see all of itself; a query sees itself and what is before: a "
       "triangle"},
      {"early-keys-of-step-zero",
       {.rule = W::kStepZeroTriangle},
       "at step 0 the late queries do not see the early keys; they see all of them"},
      {"step-zero-without-mask",
       {.rule = W::kStepZeroAll},
       "at step 0 everything was computed; that is where the mask is"},
      {"triangle-in-every-quarter",
       {.rule = W::kStepZeroTriangles},
       "at step 0 every quarter was a triangle; early by late is nothing and late by early is all: "
       "only a chunk against itself is a triangle"},
      {"queries-and-keys-exchanged",
       {.rule = W::kUpsideDown},
       "a chunk of queries sees the chunks of keys behind it; those before it"},
      {"own-chunks-for-the-owners",
       {.rule = W::kRankForOwner},
       "the keys at every step were taken for the rank's own; at step k they are those of rank r - "
       "k"},
      {"wrong-direction", {.owner = W::kAhead}, ahead},
      {"one-hop-too-far", {.owner = W::kOneMore}, one_more},
      {"negative-modulo", {.owner = W::kNegative}, negative},
      {"wrong-direction", {.rule = W::kBySteps, .owner = W::kAhead}, ahead},
      {"one-hop-too-far", {.rule = W::kBySteps, .owner = W::kOneMore}, one_more},
      {"negative-modulo", {.rule = W::kBySteps, .owner = W::kNegative}, negative},
      {"own-sizes-for-the-owners",
       {.pairs = W::kOwnSizes},
       "the keys were counted as if they were the rank's own; the owner's chunks may have another "
       "size"},
      {"sizes-rounded-down",
       {.pairs = W::kEqualSizes},
       "all chunks were taken to have L / 2P positions; where that leaves a rest some have one "
       "more"},
      {"sizes-rounded-up",
       {.pairs = W::kEqualSizesUp},
       "all chunks were taken to have L / 2P positions, rounded up; some have one less, and some "
       "none"},
      {"pieces-of-p-counted", {.pairs = W::kPiecesOfP}, of_p},
      {"pieces-of-p-counted", {.pairs = W::kChunksOfP}, of_p},
      {"sizes-of-neighbours",
       {.pairs = W::kSideBySideSizes},
       "the sizes are those of chunks 2r and 2r + 1; of the two that the rank holds: chunk_of"},
      {"triangle-without-diagonal",
       {.pairs = W::kStrictTriangle},
       "a triangle was counted as n (n - 1) / 2; a query sees itself: n (n + 1) / 2"},
      {"triangle-half-a-square",
       {.pairs = W::kSquareTriangle},
       "a triangle was counted as n n / 2; with the diagonal it is n (n + 1) / 2"},
      {"triangle-rounded",
       {.pairs = W::kHalfTriangle},
       "n / 2 was rounded before it was multiplied: n (n + 1) / 2, the product first"},
      {"triangle-as-a-square",
       {.pairs = W::kTriangleAsAll},
       "a triangle was counted as n n; half of it is masked: n (n + 1) / 2"},
      {"triangles-not-counted",
       {.pairs = W::kWithoutTriangles},
       "the triangles of step 0 were not counted"},
      {"quarters-for-pairs",
       {.pairs = W::kQuartersOnly},
       "quarters were counted; each has as many pairs as queries times keys"},
      {"two-equal-quarters",
       {.pairs = W::kTwoChunks},
       "two quarters of early by early were counted; that is the work if all chunks are of one "
       "size and step 0 is left out"},
      {"masked-pairs-counted",
       {.pairs = W::kRectangle},
       "all four quarters were counted, also what is not computed"},
  };
  return known;
}

static void check_zigzag(int ranks, int64_t length) {
  const auto chunks = [&](const auto& way) {
    Numbers result;
    for (int rank = 0; rank < ranks; ++rank)
      for (const Half half : {EARLY, LATE}) result.push_back(way.chunk_of(rank, half, ranks));
    return result;
  };
  const auto mistakes = exercise::mistakes(all_known(), chunks);
  exercise::check_output({"rank", 2, 0, {"early", "late"}}, chunks(Answer{}), chunks(Way{}),
                         mistakes);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto steps = [&](const auto& way) {
      Numbers result;
      for (int step = 0; step < ranks; ++step) {
        for (const Half queries : {EARLY, LATE})
          for (const Half keys : {EARLY, LATE})
            result.push_back(way.quarter_at(rank, step, ranks, queries, keys));
        result.push_back(static_cast<double>(way.pairs_at(length, rank, step, ranks)));
      }
      return result;
    };
    exercise::check_output(
        {"r" + std::to_string(rank) + ".step", 5, 0, {"EE", "EL", "LE", "LL", "pairs"}},
        steps(Answer{}), steps(Way{}), exercise::mistakes(all_known(), steps));
  }
}

TEST_CASE("the README's 2 ranks, 4 positions") { check_zigzag(2, 4); }
TEST_CASE("2 ranks, 16 positions") { check_zigzag(2, 16); }
TEST_CASE("3 ranks, 12 positions") { check_zigzag(3, 12); }
TEST_CASE("4 ranks, 64 positions") { check_zigzag(4, 64); }
TEST_CASE("3 ranks, 17 positions: chunks of 2 and 3") { check_zigzag(3, 17); }
TEST_CASE("4 ranks, 61 positions") { check_zigzag(4, 61); }
TEST_CASE("one rank, 5 and 6 positions") {
  check_zigzag(1, 5);
  check_zigzag(1, 6);
}
TEST_CASE("3 ranks, 5 positions: an empty chunk") { check_zigzag(3, 5); }
TEST_CASE("3 ranks, one position, and none") {
  check_zigzag(3, 1);
  check_zigzag(3, 0);
}

// What this test takes for right: the pairs add up to all that a mask leaves, and where 2P divides
// the length every rank has as many.
TEST_CASE("the work") {
  for (const int ranks : {1, 2, 3, 4})
    for (const int64_t length : {int64_t{0}, int64_t{5}, int64_t{61}, int64_t{48}}) {
      int64_t all = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        int64_t of_rank = 0;
        for (int step = 0; step < ranks; ++step)
          of_rank += Way{}.pairs_at(length, rank, step, ranks);
        if (length == 48) CHECK(of_rank == length * (length + 1) / 2 / ranks);
        all += of_rank;
      }
      CHECK(all == length * (length + 1) / 2);
      for (int rank = 0; rank < ranks; ++rank)
        for (int step = 0; step < ranks; ++step)
          for (const Half q : {EARLY, LATE})
            for (const Half k : {EARLY, LATE})
              CHECK(Way{.rule = Way::kBySteps}.quarter_at(rank, step, ranks, q, k) ==
                    Way{}.quarter_at(rank, step, ranks, q, k));
    }
}
