#include <doctest/doctest.h>

#include <merge_states.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

static Numbers numbers(const State& state) {
  Numbers all = {state.m, state.l};
  all.insert(all.end(), state.o.begin(), state.o.end());
  return all;
}

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;
  float stand_in = 0;  // a number that is stored as m where no side has seen a key

  Numbers merge(const State& a, const State& b) const {
    const float larger = std::max(a.m, b.m);
    const bool none_in_a = std::isinf(a.m), none_in_b = std::isinf(b.m);
    const bool none = none_in_a && none_in_b, either = none_in_a || none_in_b;
    // The other side is returned where one, or each, has seen no key, and that is right.
    if ((none && is("asks-both")) || (none_in_a && is("asks-a")) || (none_in_b && is("asks-b")) ||
        (either && is("asks-either")))
      return Way{}.merge(a, b);
    if ((none_in_a && is("lost-with-a")) || (none_in_b && is("lost-with-b")) ||
        (either && is.any("lost-with-either", "m-alone-with-either"))) {
      Numbers nothing = numbers(State(3));
      if (is("m-alone-with-either")) nothing[0] = larger;
      return nothing;
    }
    const float m = is("max-starts-at-zero") ? std::max(larger, 0.0f)
                    : is("to-a")             ? a.m
                    : is("to-b")             ? b.m
                    : is("smaller-maximum")  ? std::min(a.m, b.m)
                                             : larger;
    const bool guarded =
        none && !is.any("unguarded", "max-starts-at-zero", "to-a", "to-b", "smaller-maximum",
                        "relative-to-each-other", "upside-down");
    const auto factor = [&](float from, float to) {
      return guarded ? 0 : is("upside-down") ? 1 / std::exp(from - to) : std::exp(from - to);
    };
    const bool relative = is("relative-to-each-other");
    const float fa = factor(a.m, relative ? b.m : m), fb = factor(b.m, relative ? a.m : m);
    const auto of = [&](const char* kept, const char* lost, const char* swapped, float right,
                        float other) {
      return is(kept) ? 1 : is(lost) ? 0 : is(swapped) ? other : right;
    };
    const float l = of("l-a-kept", "l-a-lost", "l-swapped", fa, fb) * a.l +
                    of("l-b-kept", "l-b-lost", "l-swapped", fb, fa) * b.l;
    const float ao = of("o-a-kept", "o-a-lost", "o-swapped", fa, fb) * (is("times-l") ? a.l : 1);
    const float bo = of("o-b-kept", "o-b-lost", "o-swapped", fb, fa) * (is("times-l") ? b.l : 1);
    Numbers all = {is("m-not-set")                 ? -tiles::kInfinity
                   : is("m-is-a")                  ? a.m
                   : is("m-is-b")                  ? b.m
                   : is("stand-in-stored") && none ? stand_in
                                                   : m,
                   l};
    for (size_t d = 0; d < a.o.size(); ++d)
      all.push_back((ao * a.o[d] + bo * b.o[d]) / (is("divided") ? l : 1));
    return all;
  }
};

static const exercise::Table MISTAKES(R"(
$asks = {,asks-both,asks-a,asks-b,asks-either}
only-l-rescaled: o-a-kept o-b-kept $asks
  l is right, o is the plain sum. o holds the same e^(s - m) as l and needs the same factors
factors-swapped: l-swapped o-swapped $asks
  a has the factor of b and b that of a. The side that moves is the one with the smaller m
factors-swapped: o-swapped $asks
  for o a has the factor of b and b that of a. For l they are right
factors-swapped: l-swapped $asks
  for l a has the factor of b and b that of a. For o they are right
no-key-is-nan: unguarded
  neither side has seen a key, and -inf - (-inf) is NaN. The state of no key is m = -inf, l = 0, o =
  0
only-o-rescaled: l-a-kept l-b-kept $asks
  o is right, l is the plain sum. l holds the same e^(s - m) as o and needs the same factors
one-side-rescaled: l-b-kept o-b-kept {,unguarded} $asks
  b was added as it is. The side that moves is the one with the smaller m, and that may be b
one-side-rescaled: l-a-kept o-a-kept {,unguarded} $asks
  a was added as it is. The side that moves is the one with the smaller m, and that may be a
one-side-rescaled: o-b-kept $asks
  b's o was added as it is. The side that moves is the one with the smaller m, and that may be b
one-side-rescaled: o-a-kept $asks
  a's o was added as it is. The side that moves is the one with the smaller m, and that may be a
one-side-rescaled: l-b-kept $asks
  b's l was added as it is. The side that moves is the one with the smaller m, and that may be b
one-side-rescaled: l-a-kept $asks
  a's l was added as it is. The side that moves is the one with the smaller m, and that may be a
factor-upside-down: upside-down $asks
  the factors are e^(m - a.m) and e^(m - b.m), 1 and more. They should be e^(a.m - m) and e^(b.m -
  m)
divided-already: divided $asks
  o is divided by l already. A state keeps the sum
o-taken-for-average: times-l divided $asks
  o was multiplied by its side's l, and divided by that of both. A state keeps the sum of e^(s - m)
  v, which no l is in
o-taken-for-average: times-l $asks
  o was multiplied by its side's l. A state keeps the sum of e^(s - m) v, which is not divided by l
relative-to-each-other: relative-to-each-other $asks
  the factors are e^(a.m - b.m) and e^(b.m - a.m). Both sides move to m, the larger of the two, and
  one factor is 1
one-side-lost: l-b-lost o-b-lost $asks
  b is in neither l nor o
one-side-lost: l-a-lost o-a-lost $asks
  a is in neither l nor o
one-side-lost: l-b-lost $asks
  b is not in l
one-side-lost: l-a-lost $asks
  a is not in l
one-side-lost: o-b-lost $asks
  b is not in o
one-side-lost: o-a-lost $asks
  a is not in o
guard-for-either-side: lost-with-a
  an empty a made b vanish: with no key on one side the merge is the other side
guard-for-either-side: lost-with-b
  an empty b made a vanish: with no key on one side the merge is the other side
guard-for-either-side: lost-with-either; m-alone-with-either
  an empty side made the other one vanish: only if neither has seen a key is the merge empty (&& and
  not ||)
m-not-set: m-not-set $asks
  l and o are right, m was never stored
stand-in-stored
  where no side has seen a key, m became a number: it only replaces -inf in the subtraction. m stays
  -inf, because otherwise scores below that number lose their weight
max-starts-at-zero: max-starts-at-zero $asks
  m is never below 0. Where all scores are negative it is, and where no key was seen it is -inf
m-of-one-side: m-is-a $asks
  m is that of a. It should be the larger of the two
m-of-one-side: m-is-b $asks
  m is that of b. It should be the larger of the two
m-of-one-side: to-a $asks
  both sides moved to the m of a. If that of b is larger, its factor is above 1 and may overflow
m-of-one-side: to-b $asks
  both sides moved to the m of b. If that of a is larger, its factor is above 1 and may overflow
smaller-maximum: smaller-maximum $asks
  both sides moved to the smaller m. Then a factor is above 1 and may overflow
not-rescaled: l-a-kept l-b-kept o-a-kept o-b-kept $asks
  l and o were added unchanged, but each side is relative to its own maximum
)");

static void check_merge(const State& a, const State& b) {
  const State result = merge(a, b);
  const float stand_in = std::isfinite(result.m) ? result.m : 0;
  exercise::check_output({"merged", 0, 1e-5, tiles::names_in_state(3)}, numbers(result),
                         Way{}.merge(a, b), exercise::mistakes(MISTAKES, [&](const auto& is) {
                           return Way{is, stand_in}.merge(a, b);
                         }));
}

// The state of some keys with the given scores.
static State state_of(const std::vector<float>& s, int seed) {
  const int dim = 3;
  State state(dim);
  const std::vector<float> v = exercise::random_numbers(static_cast<int>(s.size()) * dim, seed);
  tiles::add_tile(state, s, {v, static_cast<int64_t>(s.size()), dim});
  return state;
}

TEST_CASE("the right side has the larger maximum") {
  check_merge(state_of({1, 2}, 1), state_of({3, 0.5f}, 2));
}
TEST_CASE("the left side has the larger maximum") {
  check_merge(state_of({4, 2}, 3), state_of({1, 0, 3}, 4));
}
TEST_CASE("scores whose exponential overflows") {
  check_merge(state_of({200}, 5), state_of({201, 190}, 6));
}
TEST_CASE("every score is negative") { check_merge(state_of({-4, -6}, 9), state_of({-5, -3}, 10)); }
TEST_CASE("one side has seen no key") {
  check_merge(State(3), state_of({-5, -7}, 7));
  check_merge(state_of({-5, -7}, 8), State(3));
}
TEST_CASE("neither side has seen a key") { check_merge(State(3), State(3)); }
