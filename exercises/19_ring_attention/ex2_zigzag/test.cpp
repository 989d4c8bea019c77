#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>
#include <zigzag.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  int owner_of(int rank, int step, int ranks) const {
    return is("ahead")      ? (rank + step) % ranks
           : is("one-more") ? (rank + 2 * ranks - step - 1) % ranks
           : is("negative") ? (rank - step) % ranks
                            : (rank + ranks - step) % ranks;
  }
  int chunk_of(int rank, Half half, int ranks) const {
    const bool late = half == LATE;
    return is("side-by-side")        ? 2 * rank + late
           : late == is("exchanged") ? rank
           : is("striped")           ? rank + ranks
           : is("one-too-far")       ? 2 * ranks - rank
           : is("of-ranks")          ? ranks - 1 - rank
           : is("in-order-late")     ? rank + 1
                                     : 2 * ranks - 1 - rank;
  }
  Quarter quarter_at(int rank, int step, int ranks, Half queries, Half keys) const {
    const int whose = is("own-chunks-for-the-owners") ? rank : owner_of(rank, step, ranks);
    const int q = chunk_of(rank, queries, ranks), k = chunk_of(whose, keys, ranks);
    const Quarter compared = q == k ? TRIANGLE : q > k ? ALL : NOTHING;
    const bool early_half = is("own-keys-a-step-later")     ? step < rank
                            : is("always-the-early-keys")   ? true
                            : is("always-the-late-queries") ? false
                            : is("halves-exchanged")        ? step > rank
                                                            : step <= rank;
    if (is("nothing-is-hidden")) return ALL;
    if (is("queries-and-keys-exchanged")) return q == k ? TRIANGLE : q < k ? ALL : NOTHING;
    if (is("diagonal-omitted") && q == k) return NOTHING;
    if (is("diagonal-without-mask") && q == k) return ALL;
    if (is("skipped-as-in-order")) return step > rank ? NOTHING : step == 0 ? compared : ALL;
    const bool by_steps =
        is.any("by-steps", "own-keys-a-step-later", "halves-exchanged", "always-the-early-keys",
               "always-the-late-queries", "late-keys-only", "early-keys-of-step-zero",
               "step-zero-without-mask", "triangle-in-every-quarter");
    if (!by_steps) return compared;
    if (step == 0) {
      if (is("step-zero-without-mask")) return ALL;
      if (is("triangle-in-every-quarter")) return TRIANGLE;
      if (is("early-keys-of-step-zero")) return queries == keys ? TRIANGLE : NOTHING;
      return queries == keys ? TRIANGLE : queries == LATE ? ALL : NOTHING;
    }
    if (is("late-keys-only"))
      return early_half                        ? (keys == EARLY ? ALL : NOTHING)
             : queries == LATE && keys == LATE ? ALL
                                               : NOTHING;

    if (early_half) return keys == EARLY ? ALL : NOTHING;
    return queries == LATE ? ALL : NOTHING;
  }
  int64_t pairs_at(int64_t length, int rank, int step, int ranks) const {
    const int whose = owner_of(rank, step, ranks);
    const auto size = [&](int of, Half half) -> int64_t {
      if (is("sizes-rounded-down")) return length / (2 * ranks);
      if (is("sizes-rounded-up")) return (length + 2 * ranks - 1) / (2 * ranks);
      if (is("chunks-of-p")) return ch19::piece(length, ranks, chunk_of(of, half, ranks)).size();
      if (is("sizes-of-neighbours")) return ch19::piece(length, 2 * ranks, 2 * of + half).size();
      if (is("pieces-of-p")) return ch19::piece(length, ranks, of).size();
      return ch19::piece(length, 2 * ranks, chunk_of(of, half, ranks)).size();
    };
    int64_t sum = 0;
    for (const Half queries : {EARLY, LATE})
      for (const Half keys : {EARLY, LATE}) {
        const Quarter quarter = quarter_at(rank, step, ranks, queries, keys);
        const int64_t n_q = size(rank, queries);
        const int64_t n_k = size(is("own-sizes-for-the-owners") ? rank : whose, keys);
        if (quarter == ALL || is("masked-pairs-counted"))
          sum += is("quarters-for-pairs") ? 1 : n_q * n_k;
        if (quarter != TRIANGLE || is("masked-pairs-counted")) continue;
        sum += is("triangle-half-a-square")      ? n_q * n_q / 2
               : is("triangle-without-diagonal") ? n_q * (n_q - 1) / 2
               : is("triangle-rounded")          ? n_q / 2 * (n_q + 1)
               : is("triangle-as-a-square")      ? n_q * n_q
               : is("triangles-not-counted")     ? 0
               : is("quarters-for-pairs")        ? 0
                                                 : n_q * (n_q + 1) / 2;
      }
    return is("two-equal-quarters") ? 2 * size(rank, EARLY) * size(whose, EARLY) : sum;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int chunk_of(int rank, Half half, int ranks) const { return ::chunk_of(rank, half, ranks); }
  Quarter quarter_at(int rank, int step, int ranks, Half queries, Half keys) const {
    return ::quarter_at(rank, step, ranks, queries, keys);
  }
  int64_t pairs_at(int64_t length, int rank, int step, int ranks) const {
    return ::pairs_at(length, rank, step, ranks);
  }
};

static const exercise::Table MISTAKES(R"(
chunks-side-by-side: side-by-side; side-by-side by-steps; in-order-late; in-order-late by-steps
  a rank holds two neighbouring chunks, as it would without zigzag. It must hold one from the front
  and one from the end
dealt-from-the-front: striped; striped by-steps
  the late chunks are dealt out from the front again, so the last rank has the later one of both:
  the late chunk of rank r is 2P - 1 - r
one-chunk-too-far: one-too-far; one-too-far by-steps
  the late chunk is 2P - r. Chunks are 0 to 2P - 1, so that of rank 0 does not exist
chunks-of-p: of-ranks; of-ranks by-steps
  the late chunk is P - 1 - r, as if there were P chunks. There are 2P
early-and-late-exchanged: exchanged; exchanged by-steps
  the early chunk is 2P - 1 - r and the late one r. It is the other way round
own-keys-a-step-later
  at step `rank` the keys of rank 0 are there, whose early chunk all queries see: step <= rank,
  not <
halves-exchanged
  up to step `rank` the late queries see all keys, and later all queries the early keys. It is the
  other way round
always-the-early-keys
  all queries see the early keys at every step. After step `rank` the keys come from a later rank,
  whose early chunk comes after this rank's early chunk
always-the-late-queries
  the late queries see all keys at every step. Up to step `rank` the owner's late chunk comes after
  this rank's late chunk, and the early queries see the early keys
nothing-is-hidden
  all quarters were computed. A query sees no key after it
skipped-as-in-order
  after step `rank` nothing was computed, and before it everything. This is right for pieces in
  order, but here late queries see keys of later ranks
late-keys-only
  after step `rank` the late queries were given the late keys only. They see the early keys as well
diagonal-omitted
  a chunk sees itself too, up to each query's own position: a triangle
diagonal-without-mask
  a chunk was allowed to see all of itself. A query sees itself and what is before: a triangle
early-keys-of-step-zero
  at step 0 the late queries do not see the early keys. But they see all of them
step-zero-without-mask
  at step 0 everything was computed. That is where the mask is
triangle-in-every-quarter
  at step 0 every quarter was a triangle. Early by late is nothing and late by early is all: only a
  chunk against itself is a triangle
queries-and-keys-exchanged
  a chunk of queries was given the chunks of keys after it. It sees those before it
own-chunks-for-the-owners
  the keys at every step were taken for the rank's own. At step k they are those of rank r - k
wrong-direction: ahead
  the keys at step k were taken for those of rank r + k. They come from the rank before: r - k
one-hop-too-far: one-more
  the keys at step k were taken for those of the next step. At step 0 a rank holds its own
negative-modulo: negative
  (rank - step) % ranks is negative if step is larger than rank: add ranks before you divide
wrong-direction: by-steps ahead
  the keys at step k were taken for those of rank r + k. They come from the rank before: r - k
one-hop-too-far: by-steps one-more
  the keys at step k were taken for those of the next step. At step 0 a rank holds its own
negative-modulo: by-steps negative
  (rank - step) % ranks is negative if step is larger than rank: add ranks before you divide
own-sizes-for-the-owners
  the keys were counted as if they were the rank's own. The owner's chunks may have another size
sizes-rounded-down
  all chunks were taken to have L / 2P positions. Where that leaves a rest some have one more
sizes-rounded-up
  all chunks were taken to have L / 2P positions, rounded up. Some have one less, and some none
pieces-of-p-counted: pieces-of-p; chunks-of-p
  the sizes are those of P pieces. A chunk is one of 2P
sizes-of-neighbours
  the sizes are those of chunks 2r and 2r + 1. Of the two that the rank holds: chunk_of
triangle-without-diagonal
  a triangle was counted as n (n - 1) / 2. A query sees itself: n (n + 1) / 2
triangle-half-a-square
  a triangle was counted as n n / 2. With the diagonal it is n (n + 1) / 2
triangle-rounded
  n / 2 was rounded before it was multiplied: n (n + 1) / 2, the product first
triangle-as-a-square
  a triangle was counted as n n. Half of it is masked: n (n + 1) / 2
triangles-not-counted
  the triangles of step 0 were not counted
quarters-for-pairs
  quarters were counted. Each has as many pairs as queries times keys
two-equal-quarters
  two quarters of early by early were counted. That is the work if all chunks are of one size and
  step 0 is left out
masked-pairs-counted
  all four quarters were counted, also what is not computed
)");

static void check_zigzag(int ranks, int64_t length) {
  const auto chunks = [&](const auto& way) {
    Numbers result;
    for (int rank = 0; rank < ranks; ++rank)
      for (const Half half : {EARLY, LATE}) result.push_back(way.chunk_of(rank, half, ranks));
    return result;
  };
  exercise::check_output<Way, Answer>({"rank", 2, 0, {"early", "late"}}, MISTAKES, chunks);
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
    exercise::check_output<Way, Answer>(
        {"r" + std::to_string(rank) + ".step", 5, 0, {"EE", "EL", "LE", "LL", "pairs"}}, MISTAKES,
        steps);
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

// The answer that this test expects: the pairs add up to all that a mask leaves, and where 2P
// divides the length every rank has as many.
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
              CHECK(Way{exercise::Changes("by-steps")}.quarter_at(rank, step, ranks, q, k) ==
                    Way{}.quarter_at(rank, step, ranks, q, k));
    }
}
