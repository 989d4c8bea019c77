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

// m, l, o with the given factors for a.l, b.l, a.o, b.o.
static Numbers merged(const State& a, const State& b, float al, float bl, float ao, float bo) {
  Numbers all = {std::max(a.m, b.m), al * a.l + bl * b.l};
  for (size_t d = 0; d < a.o.size(); ++d) all.push_back(ao * a.o[d] + bo * b.o[d]);
  return all;
}

// Both sides moved to m, whether that is the larger one or not.
static Numbers merged_to(const State& a, const State& b, float m) {
  const float fa = std::exp(a.m - m), fb = std::exp(b.m - m);
  Numbers all = merged(a, b, fa, fb, fa, fb);
  all[0] = m;
  return all;
}

static void check_merge(const State& a, const State& b) {
  const float m = std::max(a.m, b.m);
  const bool none = m == -tiles::kInfinity;
  const float fa = std::exp(a.m - m), fb = std::exp(b.m - m);
  const float ra = none ? 0 : fa, rb = none ? 0 : fb;
  const bool either = std::isinf(a.m) || std::isinf(b.m);
  const Numbers right = merged(a, b, ra, rb, ra, rb), nobody = numbers(State(3));
  const State result = merge(a, b);
  const auto with_m = [&](float other) {
    Numbers all = right;
    all[0] = other;
    return all;
  };
  const Numbers no_m = with_m(-tiles::kInfinity);
  Numbers divided = right, only_m = nobody;
  only_m[0] = m;
  for (size_t d = 2; d < divided.size(); ++d) divided[d] /= divided[1];
  // o of each side taken for its output: multiplied by its l, and divided by that of both, or not.
  Numbers averaged = merged(a, b, ra, rb, ra * a.l, rb * b.l), multiplied = averaged;
  for (size_t d = 2; d < averaged.size(); ++d) averaged[d] /= averaged[1];
  const float a_from_b = std::exp(a.m - b.m), b_from_a = std::exp(b.m - a.m);
  std::vector<exercise::Mistake> mistakes = {
      {"only-l-rescaled", merged(a, b, ra, rb, 1, 1),
       "l is right, o is the plain sum; o holds the same e^(s - m) as l and needs the same "
       "factors"},
      {"factors-swapped", merged(a, b, rb, ra, rb, ra),
       "a has the factor of b and b that of a; the side that moves is the one with the smaller m"},
      {"factors-swapped", merged(a, b, ra, rb, rb, ra),
       "for o a has the factor of b and b that of a; for l they are right"},
      {"factors-swapped", merged(a, b, rb, ra, ra, rb),
       "for l a has the factor of b and b that of a; for o they are right"},
      {"no-key-is-nan", merged(a, b, fa, fb, fa, fb),
       "neither side has seen a key, and -inf - (-inf) is NaN; the state of no key is m = -inf, l "
       "= 0, o = 0"},
      {"only-o-rescaled", merged(a, b, 1, 1, ra, rb),
       "o is right, l is the plain sum; l holds the same e^(s - m) as o and needs the same "
       "factors"},
      {"one-side-rescaled", merged(a, b, ra, 1, ra, 1),
       "b was added as it is; the side that moves is the one with the smaller m, and that may be "
       "b"},
      {"one-side-rescaled", merged(a, b, 1, rb, 1, rb),
       "a was added as it is; the side that moves is the one with the smaller m, and that may be "
       "a"},
      {"one-side-rescaled", merged(a, b, ra, rb, ra, 1),
       "b's o was added as it is; the side that moves is the one with the smaller m, and that may "
       "be b"},
      {"one-side-rescaled", merged(a, b, ra, rb, 1, rb),
       "a's o was added as it is; the side that moves is the one with the smaller m, and that may "
       "be a"},
      {"one-side-rescaled", merged(a, b, ra, 1, ra, rb),
       "b's l was added as it is; the side that moves is the one with the smaller m, and that may "
       "be b"},
      {"one-side-rescaled", merged(a, b, 1, rb, ra, rb),
       "a's l was added as it is; the side that moves is the one with the smaller m, and that may "
       "be a"},
      {"one-side-rescaled", merged(a, b, fa, 1, fa, 1),
       "b was added as it is; the side that moves is the one with the smaller m, and that may be "
       "b"},
      {"one-side-rescaled", merged(a, b, 1, fb, 1, fb),
       "a was added as it is; the side that moves is the one with the smaller m, and that may be "
       "a"},
      {"factor-upside-down", merged(a, b, 1 / fa, 1 / fb, 1 / fa, 1 / fb),
       "the factors are e^(m - a.m) and e^(m - b.m), 1 and more; they are e^(a.m - m) and e^(b.m - "
       "m)"},
      {"factor-upside-down", none ? right : merged(a, b, 1 / fa, 1 / fb, 1 / fa, 1 / fb),
       "the factors are e^(m - a.m) and e^(m - b.m), 1 and more; they are e^(a.m - m) and e^(b.m - "
       "m)"},
      {"divided-already", divided, "o is divided by l already; a state keeps the sum"},
      {"o-taken-for-average", averaged,
       "o was multiplied by its side's l, and divided by that of both; a state keeps the sum of "
       "e^(s - m) v, which no l is in"},
      {"o-taken-for-average", multiplied,
       "o was multiplied by its side's l; a state keeps the sum of e^(s - m) v, which is not "
       "divided by l"},
      {"relative-to-each-other", merged(a, b, a_from_b, b_from_a, a_from_b, b_from_a),
       "the factors are e^(a.m - b.m) and e^(b.m - a.m); both sides move to m, the larger of the "
       "two, and one factor is 1"},
      {"one-side-lost", merged(a, b, ra, 0, ra, 0), "b is in neither l nor o"},
      {"one-side-lost", merged(a, b, 0, rb, 0, rb), "a is in neither l nor o"},
      {"one-side-lost", merged(a, b, ra, 0, ra, rb), "b is not in l"},
      {"one-side-lost", merged(a, b, 0, rb, ra, rb), "a is not in l"},
      {"one-side-lost", merged(a, b, ra, rb, ra, 0), "b is not in o"},
      {"one-side-lost", merged(a, b, ra, rb, 0, rb), "a is not in o"},
      {"guard-for-either-side", std::isinf(a.m) ? nobody : right,
       "an empty a made b vanish: with no key on one side the merge is the other side"},
      {"guard-for-either-side", std::isinf(b.m) ? nobody : right,
       "an empty b made a vanish: with no key on one side the merge is the other side"},
      {"guard-for-either-side", either ? nobody : right,
       "an empty side made the other one vanish: only if neither has seen a key is the merge empty "
       "(&& and not ||)"},
      {"guard-for-either-side", either ? only_m : right,
       "an empty side made the other one vanish: only if neither has seen a key is the merge empty "
       "(&& and not ||)"},
      {"m-not-set", no_m, "l and o are right, m was never stored"},
      {"stand-in-stored", with_m(none ? std::isfinite(result.m) ? result.m : 0 : m),
       "where no side has seen a key, m became a number: it only replaces -inf in the subtraction; "
       "m stays -inf, because otherwise scores below that number lose their weight"},
      {"max-starts-at-zero", merged_to(a, b, std::max(m, 0.0f)),
       "m is never below 0; where all scores are negative it is, and where no key was seen it is "
       "-inf"},
      {"m-of-one-side", with_m(a.m), "m is that of a; it is the larger of the two"},
      {"m-of-one-side", with_m(b.m), "m is that of b; it is the larger of the two"},
      {"m-of-one-side", merged_to(a, b, a.m),
       "both sides moved to the m of a; if that of b is larger, its factor is above 1 and may "
       "overflow"},
      {"m-of-one-side", merged_to(a, b, b.m),
       "both sides moved to the m of b; if that of a is larger, its factor is above 1 and may "
       "overflow"},
      {"smaller-maximum", merged_to(a, b, std::min(a.m, b.m)),
       "both sides moved to the smaller m; then a factor is above 1 and may overflow"},
      {"not-rescaled", merged(a, b, 1, 1, 1, 1),
       "l and o were added unchanged, but each side is relative to its own maximum"}};
  // The same with the question first whether both sides, or one of them, have seen no key: then the
  // other one is returned, and that is right.
  const size_t count = mistakes.size();
  const bool none_in_a = std::isinf(a.m), none_in_b = std::isinf(b.m);
  for (const bool returned : {none, none_in_a, none_in_b, either}) {
    for (size_t i = 0; i < count; ++i) {
      const std::string& name = mistakes[i].name;
      if (name == "no-key-is-nan" || name == "guard-for-either-side" || name == "stand-in-stored")
        continue;  // what is asked is the mistake itself
      mistakes.push_back(mistakes[i]);
      if (returned) mistakes.back().output = right;
    }
  }
  exercise::check_output({"merged", 0, 1e-5, tiles::names_in_state(3)}, numbers(result), right,
                         mistakes);
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
