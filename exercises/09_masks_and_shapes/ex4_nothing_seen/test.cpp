#include <doctest/doctest.h>

#include <cmath>
#include <nothing_seen.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;
using Scores = std::vector<float>;

constexpr float SCALE = 0.5f;

// The three functions as people write them: right as it stands here, each mistake is a change to
// it.
struct Way {
  bool rescale_guarded = true, weights_guarded = true, guard_kept = false;
  bool old_max_dropped = false, hidden_tile_wipes = false, upside_down = false;
  bool rescale_scaled = true, weights_scaled = true, rescaled = true, l_summed = true;
  enum Sign { kByBoth, kByEither, kByM, kByLZero, kByLPositive, kNever } sign = kByBoth;
  enum Lse {
    kNatural,
    kWithoutM,
    kWithoutScale,
    kScaledWhole,
    kScaledLog,
    kDividedM,
    kBase2,
    kLog2OfL,
    kPlusL,
    kZero,
    kMinus
  } lse = kNatural;
  bool divided = true, nan_replaced = false, hidden_tile_skipped = false;

  void raise_row_max(State& state, const Scores& s, float scale) const {
    float tile_max = NEG_INF;
    for (const float score : s) tile_max = std::max(tile_max, score);
    float m_new = old_max_dropped ? tile_max : std::max(state.m, tile_max);
    if (guard_kept && m_new == NEG_INF) m_new = 0;
    const float minus = rescale_guarded && m_new == NEG_INF ? 0 : m_new;
    float factor =
        std::exp((upside_down ? minus - state.m : state.m - minus) * (rescale_scaled ? scale : 1));
    if (hidden_tile_wipes && tile_max == NEG_INF) factor = 0;
    if (rescaled) state.l *= factor, state.o *= factor;
    state.m = m_new;
  }
  Scores exponentiate(State& state, const Scores& s, float scale) const {
    const float minus = weights_guarded && state.m == NEG_INF ? 0 : state.m;
    Scores p;
    if (hidden_tile_skipped && state.m == NEG_INF) return Scores(s.size());
    for (const float score : s) {
      p.push_back(std::exp((score - minus) * (weights_scaled ? scale : 1)));
      if (nan_replaced && std::isnan(p.back())) p.back() = 0;
      if (l_summed) state.l += p.back();
    }
    return p;
  }
  Row store_output(const State& state, float scale) const {
    const bool seen = sign == kByBoth        ? state.m != NEG_INF || state.l != 0
                      : sign == kByEither    ? state.m != NEG_INF && state.l != 0
                      : sign == kByM         ? state.m != NEG_INF
                      : sign == kByLZero     ? state.l != 0
                      : sign == kByLPositive ? state.l > 0
                                             : true;
    const float log_l = std::log(state.l), log2e = 1.44269504f;
    const float natural = scale * state.m + log_l;
    const float value = lse == kWithoutM       ? log_l
                        : lse == kWithoutScale ? state.m + log_l
                        : lse == kScaledWhole  ? scale * (state.m + log_l)
                        : lse == kScaledLog    ? state.m + scale * log_l
                        : lse == kDividedM     ? state.m / scale + log_l
                        : lse == kPlusL        ? scale * state.m + state.l
                        : lse == kBase2        ? natural * log2e
                        : lse == kLog2OfL      ? scale * state.m + log_l * log2e
                        : lse == kMinus        ? scale * state.m - log_l
                                               : natural;
    return {!seen     ? 0
            : divided ? state.o / state.l
                      : state.o,
            seen           ? value
            : lse == kZero ? 0
                           : NEG_INF};
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  void raise_row_max(State& state, const Scores& s, float scale) const {
    ::raise_row_max(state, s, scale);
  }
  Scores exponentiate(State& state, const Scores& s, float scale) const {
    return ::exponentiate(state, s, scale);
  }
  Row store_output(const State& state, float scale) const { return ::store_output(state, scale); }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const by_l =
      "a row that sees nothing is told by l alone; that also hides a 0/0 or a NaN that is a "
      "mistake: m is -inf, too";
  static const char* const unscaled =
      "the difference of scores is not multiplied by scale in the factor or in the weights";
  static const std::vector<Known> known = {
      {"infinity-minus-infinity",
       {.rescale_guarded = false, .weights_guarded = false},
       "as long as no key is seen m is -inf, and -inf - (-inf) is NaN: subtract 0 then, in the "
       "factor and in the weights"},
      {"factor-unguarded",
       {.rescale_guarded = false},
       "the weights are guarded and the factor is not: m - m' is -inf - (-inf) as long as no key "
       "is seen"},
      {"weights-unguarded",
       {.weights_guarded = false},
       "the factor is guarded and the weights are not: s - m is -inf - (-inf) as long as no key is "
       "seen"},
      {"nan-replaced",
       {.nan_replaced = true},
       "a NaN was replaced afterwards; that hides those that are mistakes as well: do not subtract "
       "-inf"},
      {"hidden-tile-skipped",
       {.hidden_tile_skipped = true},
       "the weights are 0 at once as long as m is -inf; if all scores are NaN, m is -inf too, and "
       "no NaN comes out: subtract 0 and compute them"},
      {"guard-kept",
       {.guard_kept = true},
       "m itself became 0 where no key was seen; subtract 0 there, and keep m: the end asks it"},
      {"old-max-dropped",
       {.old_max_dropped = true},
       "m' is the maximum of this tile alone; it is the larger of that and m"},
      {"hidden-tile-wipes",
       {.hidden_tile_wipes = true},
       "a tile that is hidden set l and o to 0; it changes nothing"},
      {"factor-upside-down", {.upside_down = true}, "the factor is e^(m' - m); it is e^(m - m')"},
      {"scale-forgotten", {.rescale_scaled = false, .weights_scaled = false}, unscaled},
      {"scale-forgotten", {.rescale_scaled = false}, unscaled},
      {"scale-forgotten", {.weights_scaled = false}, unscaled},
      {"not-rescaled",
       {.rescaled = false},
       "m grew, and l and o still belong to the old one: both times e^(scale (m - m'))"},
      {"l-not-summed", {.l_summed = false}, "the weights were not added to l"},
      {"decided-by-m",
       {.sign = W::kByM},
       "a row that sees nothing is told by m alone; a maximum drops a NaN, so m is -inf as well if "
       "all scores are NaN: l is 0, too"},
      {"decided-by-either",
       {.sign = W::kByEither},
       "m = -inf or l = 0 was enough to tell a row that sees nothing; either alone is a mistake "
       "that must show: m = -inf and l = 0"},
      {"decided-by-l", {.sign = W::kByLZero}, by_l},
      {"decided-by-l", {.sign = W::kByLPositive}, by_l},
      {"nothing-divided-by-nothing",
       {.sign = W::kNever},
       "a row that sees nothing was divided as any other, 0/0: its O is 0"},
      {"lse-of-nothing-zero", {.lse = W::kZero}, "the LSE of no key is ln 0 = -inf, not 0"},
      {"m-not-in-lse", {.lse = W::kWithoutM}, "the LSE is ln l; l is relative to m: + scale m"},
      {"lse-without-scale",
       {.lse = W::kWithoutScale},
       "m was added to ln l as it is; it is of scores that are not scaled yet: scale m"},
      {"logarithm-scaled",
       {.lse = W::kScaledWhole},
       "ln l was multiplied by scale with m; l is a sum of scaled exponentials already: scale m + "
       "ln l"},
      {"logarithm-scaled",
       {.lse = W::kScaledLog},
       "ln l was multiplied by scale, and m was not; it is the other way round: scale m + ln l"},
      {"divided-by-scale", {.lse = W::kDividedM}, "m was divided by scale; scale m + ln l"},
      {"logarithm-forgotten",
       {.lse = W::kPlusL},
       "l was added; it is its logarithm: scale m + ln l"},
      {"lse-in-base-2",
       {.lse = W::kBase2},
       "the LSE is in base 2; it is the natural logarithm: times ln 2"},
      {"log2-of-l", {.lse = W::kLog2OfL}, "log2 of l was added; it is the natural logarithm"},
      {"minus-ln-l", {.lse = W::kMinus}, "ln l was subtracted; scale m + ln l"},
      {"not-divided", {.divided = false}, "O is o; divide by l"},
  };
  return known;
}

// run(way) for what people write and for the answer.
template <class Run>
static void check_numbers(const char* name, const std::vector<std::string>& labels, Run run) {
  const auto mistakes = exercise::mistakes(all_known(), [&](const Way& way) { return run(way); });
  exercise::check_output({name, 0, 1e-4, labels}, run(Answer{}), run(Way{}), mistakes);
}

// The same for a number that has to be NaN.
template <class Run>
static void check_nan(const std::string& what, const std::string& name, Run run) {
  const auto shown = [&](const auto& way) {
    const float number = run(way);
    return std::string(std::isnan(number) ? "NaN" : number == 0 ? "0" : "a number");
  };
  const auto looks = exercise::looks(all_known(), shown);
  const std::string got = shown(Answer{});
  exercise::check_shown(got == "NaN", what + ": expected " + name + " NaN, got " + got, got, looks);
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
