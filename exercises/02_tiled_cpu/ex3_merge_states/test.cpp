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

static void check_merge(const State& a, const State& b) {
  const float m = std::max(a.m, b.m);
  const bool none = m == -tiles::kInfinity;
  const float fa = std::exp(a.m - m), fb = std::exp(b.m - m);
  const float ra = none ? 0 : fa, rb = none ? 0 : fb;
  exercise::check_output(
      {"merged", 0, 1e-5, tiles::names_in_state(3)}, numbers(merge(a, b)),
      merged(a, b, ra, rb, ra, rb),
      {{"only-l-rescaled", merged(a, b, ra, rb, 1, 1),
        "l is right, o is the plain sum; o holds the same e^(s - m) as l and needs the same "
        "factors"},
       {"factors-swapped", merged(a, b, rb, ra, rb, ra),
        "a has the factor of b and b that of a; the side that moves is the one with the smaller m"},
       {"no-key-is-nan", merged(a, b, fa, fb, fa, fb),
        "neither side has seen a key, and -inf - (-inf) is NaN; the state of no key is m = -inf, l "
        "= 0, "
        "o = 0"},
       {"not-rescaled", merged(a, b, 1, 1, 1, 1),
        "l and o were added as they are, but each side is relative to a maximum of its own"}});
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
TEST_CASE("one side has seen no key") {
  check_merge(State(3), state_of({-5, -7}, 7));
  check_merge(state_of({-5, -7}, 8), State(3));
}
TEST_CASE("neither side has seen a key") { check_merge(State(3), State(3)); }
