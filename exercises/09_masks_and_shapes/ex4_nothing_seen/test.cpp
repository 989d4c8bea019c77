#include <doctest/doctest.h>

#include <cmath>
#include <nothing_seen.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;
using Scores = std::vector<float>;

constexpr float SCALE = 0.5f;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  void raise_row_max(State& state, const Scores& s, float scale) const {
    float tile_max = NEG_INF;
    for (const float score : s) tile_max = std::max(tile_max, score);
    if (is("hidden-tile-returns") && tile_max == NEG_INF) return;
    float m_new = is("tile-max") ? tile_max : std::max(state.m, tile_max);
    if (is("guard-kept") && m_new == NEG_INF) m_new = 0;
    const float minus = !is("factor-unguarded") && m_new == NEG_INF ? 0 : m_new;
    float factor = std::exp((is("factor-upside-down") ? minus - state.m : state.m - minus) *
                            (is("rescale-unscaled") ? 1 : scale));
    if (is("hidden-tile-wipes") && tile_max == NEG_INF) factor = 0;
    if (!is("l-not-rescaled")) state.l *= factor;
    if (!is("o-not-rescaled")) state.o *= factor;
    state.m = m_new;
  }
  Scores exponentiate(State& state, const Scores& s, float scale) const {
    const float minus = !is("weights-unguarded") && state.m == NEG_INF ? 0 : state.m;
    Scores p;
    if (is("hidden-tile-skipped") && state.m == NEG_INF) return Scores(s.size());
    for (const float score : s) {
      p.push_back(std::exp((score - minus) * (is("weights-unscaled") ? 1 : scale)));
      if (is("nan-replaced") && std::isnan(p.back())) p.back() = 0;
      if (!is("l-not-summed")) state.l += p.back();
    }
    return p;
  }
  Row store_output(const State& state, float scale) const {
    const bool seen = is("decided-by-either")            ? state.m != NEG_INF && state.l != 0
                      : is("decided-by-m")               ? state.m != NEG_INF
                      : is("by-l-zero")                  ? state.l != 0
                      : is("by-l-positive")              ? state.l > 0
                      : is("nothing-divided-by-nothing") ? true
                                                         : state.m != NEG_INF || state.l != 0;
    const float log_l = std::log(state.l), log2e = 1.44269504f;
    const float natural = scale * state.m + log_l;
    const float value = is("m-not-in-lse")          ? log_l
                        : is("lse-without-scale")   ? state.m + log_l
                        : is("scaled-whole")        ? scale * (state.m + log_l)
                        : is("scaled-log")          ? state.m + scale * log_l
                        : is("divided-by-scale")    ? state.m / scale + log_l
                        : is("logarithm-forgotten") ? scale * state.m + state.l
                        : is("lse-in-base-2")       ? natural * log2e
                        : is("log2-of-l")           ? scale * state.m + log_l * log2e
                        : is("minus-ln-l")          ? scale * state.m - log_l
                                                    : natural;
    return {seen ? state.o / (is("not-divided") ? 1 : state.l) : 0, seen ? value
                                                                    : is("lse-of-nothing-zero")
                                                                        ? 0
                                                                        : NEG_INF};
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  void raise_row_max(State& state, const Scores& s, float scale) const {
    ::raise_row_max(state, s, scale);
  }
  Scores exponentiate(State& state, const Scores& s, float scale) const {
    return ::exponentiate(state, s, scale);
  }
  Row store_output(const State& state, float scale) const { return ::store_output(state, scale); }
};

static const exercise::Table MISTAKES(R"(
infinity-minus-infinity: factor-unguarded weights-unguarded
  as long as no key is seen m is -inf, and -inf - (-inf) is NaN: subtract 0 then, in the factor
  and in the weights
factor-unguarded
  the weights are guarded and the factor is not: m - m' is -inf - (-inf) as long as no key is seen
weights-unguarded
  the factor is guarded and the weights are not: s - m is -inf - (-inf) as long as no key is seen
nan-replaced
  a NaN was replaced afterwards. That hides those that are mistakes as well: do not subtract -inf
hidden-tile-skipped
  the weights are 0 at once as long as m is -inf. If all scores are NaN, m is -inf too, and no NaN
  comes out: subtract 0 and compute them
guard-kept
  m itself became 0 where no key was seen. Subtract 0 there, and keep m: the end asks it
old-max-dropped: tile-max {,hidden-tile-returns}
  m' is the maximum of this tile alone. It should be the larger of that and m
hidden-tile-wipes
  a tile that is hidden set l and o to 0. It has to change nothing
factor-upside-down
  the factor is e^(m' - m). It should be e^(m - m')
scale-forgotten: rescale-unscaled weights-unscaled; rescale-unscaled; weights-unscaled
  the difference of scores is not multiplied by scale in the factor or in the weights
not-rescaled: l-not-rescaled o-not-rescaled
  m grew, and l and o still belong to the old one: both times e^(scale (m - m'))
l-not-rescaled
  m grew, and l still belongs to the old one: l, too, times e^(scale (m - m'))
o-not-rescaled
  m grew, and o still belongs to the old one: o, too, times e^(scale (m - m'))
l-not-summed
  the weights were not added to l
decided-by-m
  a row that sees nothing is told by m alone. A maximum drops a NaN, so m is -inf as well if all
  scores are NaN: l is 0, too
decided-by-either
  m = -inf or l = 0 was enough to tell a row that sees nothing. Either alone is a mistake that must
  show: m = -inf and l = 0
decided-by-l: by-l-zero; by-l-positive
  a row that sees nothing is told by l alone. That also hides a 0/0 or a NaN that is a mistake: m is
  -inf, too
nothing-divided-by-nothing
  a row that sees nothing was divided as any other, 0/0: its O is 0
lse-of-nothing-zero
  the LSE of no key is ln 0 = -inf, not 0
m-not-in-lse
  the LSE is ln l. l is relative to m: + scale m
lse-without-scale
  m was added to ln l as it is. But m is the maximum of scores that are not scaled yet: scale m
logarithm-scaled: scaled-whole
  ln l was multiplied by scale with m. l is a sum of scaled exponentials already: scale m + ln l
logarithm-scaled: scaled-log
  ln l was multiplied by scale, and m was not. It has to be the other way round: scale m + ln l
divided-by-scale
  m was divided by scale. The LSE is scale m + ln l
logarithm-forgotten
  l was added. It should be its logarithm: scale m + ln l
lse-in-base-2
  the LSE is in base 2. It should be the natural logarithm: times ln 2
log2-of-l
  log2 of l was added. It should be the natural logarithm
minus-ln-l
  ln l was subtracted. The LSE is scale m + ln l
not-divided
  O is o. Divide by l
)");

template <class Run>
static void check_numbers(const char* name, const std::vector<std::string>& labels, Run run) {
  exercise::check_output<Way, Answer>({name, 0, 1e-4, labels}, MISTAKES, run);
}

// The same for a number that must be NaN.
template <class Run>
static void check_nan(const std::string& what, const std::string& name, Run run) {
  const auto shown = [&](const auto& way) {
    const float number = run(way);
    return std::string(std::isnan(number) ? "NaN" : number == 0 ? "0" : "a number");
  };
  CHECK(shown(Way{}) == "NaN");
  exercise::check_shown<Way, Answer>(name + " of " + what, MISTAKES, shown);
}

static void check_raise(const State& before, const Scores& s) {
  check_numbers("state", {"m", "l", "o"}, [&](const auto& way) {
    State state = before;
    way.raise_row_max(state, s, SCALE);
    return Numbers{state.m, state.l, state.o};
  });
}

static void check_weights(const State& before, const Scores& s) {
  check_numbers("weights", {"p0", "p1", "p2", "l"}, [&](const auto& way) {
    State state = before;
    Numbers result = exercise::numbers(way.exponentiate(state, s, SCALE));
    result.push_back(state.l);
    return result;
  });
}

static void check_end(const State& state) {
  check_numbers("row", {"O", "LSE"}, [&](const auto& way) {
    const Row row = way.store_output(state, SCALE);
    return Numbers{row.O, row.LSE};
  });
}

template <class Any>
static Row whole_row(const Any& way, const std::vector<Scores>& tiles) {
  State state;
  float value = 1;
  for (const Scores& s : tiles) {
    way.raise_row_max(state, s, SCALE);
    const Scores p = way.exponentiate(state, s, SCALE);
    for (const float weight : p) state.o += weight * value++;
  }
  return way.store_output(state, SCALE);
}

static void check_row(const std::vector<Scores>& tiles) {
  check_numbers("row", {"O", "LSE"}, [&](const auto& way) {
    const Row row = whole_row(way, tiles);
    return Numbers{row.O, row.LSE};
  });
}

static const Scores HIDDEN = {NEG_INF, NEG_INF, NEG_INF};
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();
static const Scores NANS = {NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER};

TEST_CASE("raise_row_max: the maximum grows") { check_raise({1, 2, 3}, {2, NEG_INF, 0}); }
TEST_CASE("raise_row_max: it stays") { check_raise({4, 2, 3}, {2, NEG_INF, 0}); }
TEST_CASE("raise_row_max: a first tile that is visible") { check_raise({}, {-3, NEG_INF, -1}); }
TEST_CASE("raise_row_max: a first tile that is hidden") { check_raise({}, HIDDEN); }
TEST_CASE("raise_row_max: a hidden tile after a visible one") { check_raise({4, 2, 3}, HIDDEN); }
TEST_CASE("exponentiate: two keys of three are visible") {
  check_weights({2, 1, 3}, {2, NEG_INF, -1});
}
TEST_CASE("exponentiate: a hidden tile after a visible one") { check_weights({2, 1, 3}, HIDDEN); }
TEST_CASE("exponentiate: nothing was seen yet") { check_weights({}, HIDDEN); }
TEST_CASE("exponentiate: all scores are NaN, and the maximum has dropped them") {
  check_nan("m -Inf, l 0, scores NaN", "l", [](const auto& way) {
    State state;
    way.exponentiate(state, NANS, SCALE);
    return state.l;
  });
}
TEST_CASE("store_output: keys were seen") { check_end({3, 2.5f, -4}); }
TEST_CASE("store_output: nothing was seen") { check_end({}); }
TEST_CASE("store_output: l is 0 and m is 3, which no right row is") {
  check_nan("m 3, l 0, o 0", "O", [](const auto& way) {
    return way.store_output({3, 0, 0}, SCALE).O;
  });
}
TEST_CASE("store_output: l and o are NaN, and the maximum has dropped it") {
  check_nan("m -Inf, l NaN, o NaN", "O", [](const auto& way) {
    return way.store_output({NEG_INF, NOT_A_NUMBER, NOT_A_NUMBER}, SCALE).O;
  });
}
TEST_CASE("a row: visible tiles") { check_row({{1, 2, 3}, {4, NEG_INF, -2}}); }
TEST_CASE("a row: a hidden tile, a visible one, a hidden one") {
  check_row({HIDDEN, {-4, NEG_INF, -6}, HIDDEN});
}
TEST_CASE("a row: all tiles are hidden") { check_row({HIDDEN, HIDDEN}); }
TEST_CASE("a row: one score is NaN") {
  check_nan("scores 1, NaN, 2", "O", [](const auto& way) {
    return whole_row(way, {{1, NOT_A_NUMBER, 2}}).O;
  });
}
TEST_CASE("a row: all scores are NaN") {
  check_nan("scores NaN", "O", [](const auto& way) { return whole_row(way, {NANS}).O; });
}
TEST_CASE("a row: all scores are NaN, then a tile that is visible") {
  check_nan("scores NaN; 1, 2, 3", "O", [](const auto& way) {
    return whole_row(way, {NANS, {1, 2, 3}}).O;
  });
}
