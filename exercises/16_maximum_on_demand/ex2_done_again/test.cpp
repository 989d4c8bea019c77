#include <doctest/doctest.h>

#include <cmath>
#include <done_again.hpp>

#include "exercises/support/verdict.hpp"

void Tile::scores(float (&S)[ROWS][KEYS]) const {
  ++calls;
  std::copy(&known[0][0], &known[0][0] + ROWS * KEYS, &S[0][0]);
}

// The function as people write it: right as it stands here, and each mistake is a change.
struct Way {
  enum Check {
    kEitherSum,
    kNanPasses,
    kNotInf,
    kWithL,
    kRow0,
    kRow1,
    kNever,
    kAlways
  } check = kEitherSum;
  enum Spoiled { kApart, kAdded, kNotReset, kOutputToo, kOutputAlone } spoiled = kApart;
  enum Factor { kOld, kOne, kUpsideDown } l_factor = kOld, o_factor = kOld;
  int l_times = 1, o_times = 1;
  bool rescaled_late = false;
  enum Max { kLarger, kOfTheTile, kOfBothRows } max = kLarger;
  enum Again { kScores, kWeights, kKept } again = kScores;
  bool weights_guarded = true, factor_guarded = true, first_guarded = false;
  bool one_row = false, dropped = false, looks_first = false;

  static float guarded(float m, bool guard) { return guard && m == NEG_INF ? 0 : m; }

  static float weights_of(float (&S)[KEYS], float minus) {
    float sum = 0;
    for (float& s : S) sum += s = std::exp(s - minus);
    return sum;
  }

  static void add_output(Row& row, const float (&S)[KEYS], const Tile& tile) {
    for (int key = 0; key < KEYS; ++key)
      for (int d = 0; d < DIM; ++d) row.O[d] += S[key] * tile.V[key][d];
  }

  bool too_large(const Row (&rows)[ROWS], const float (&sum)[ROWS]) const {
    bool any = check == kAlways;
    for (int i = 0; i < ROWS; ++i) {
      if ((check == kRow0 && i != 0) || (check == kRow1 && i != 1)) continue;
      any |= check == kNanPasses ? sum[i] >= LIMIT
             : check == kNotInf  ? !std::isfinite(sum[i])
             : check == kWithL   ? !(rows[i].l + sum[i] < LIMIT)
                                 : !(sum[i] < LIMIT);
    }
    return any && check != kNever;
  }

  void step(Row (&rows)[ROWS], const Tile& tile) const {
    float S[ROWS][KEYS], first[ROWS][KEYS], sum[ROWS] = {};
    tile.scores(S);
    std::copy(&S[0][0], &S[0][0] + ROWS * KEYS, &first[0][0]);
    bool good[ROWS] = {};
    if (!looks_first)
      for (int i = 0; i < ROWS; ++i) {
        sum[i] = weights_of(S[i], guarded(rows[i].m, first_guarded));
        good[i] = sum[i] < LIMIT;
      }
    const bool missed = looks_first || too_large(rows, sum);
    float factor[ROWS][2] = {{1, 1}, {1, 1}};  // of l, of O
    if (missed) {
      for (int i = 0; i < ROWS; ++i) {
        if (spoiled == kAdded || spoiled == kOutputToo) rows[i].l += sum[i];
        if (spoiled >= kOutputToo) add_output(rows[i], S[i], tile);
      }
      if (again == kScores && !looks_first) tile.scores(S);
      if (again == kKept) std::copy(&first[0][0], &first[0][0] + ROWS * KEYS, &S[0][0]);
      for (int i = 0; i < ROWS; ++i) {
        if (one_row && good[i]) continue;
        float largest = max == kOfTheTile ? NEG_INF : rows[i].m;
        for (int other = 0; other < ROWS; ++other)
          for (int key = 0; key < KEYS; ++key)
            if (other == i || max == kOfBothRows) largest = std::max(largest, S[other][key]);
        const float minus = guarded(largest, factor_guarded);
        const auto of = [&](Factor which, int times) {
          const float one = which == kOne          ? 1
                            : which == kUpsideDown ? std::exp(minus - rows[i].m)
                                                   : std::exp(rows[i].m - minus);
          return times == 2 ? one * one : one;
        };
        factor[i][0] = of(l_factor, l_times);
        factor[i][1] = of(o_factor, o_times);
        rows[i].m = largest;
        const float sum_again = weights_of(S[i], guarded(largest, weights_guarded));
        sum[i] = spoiled == kNotReset ? sum[i] + sum_again : sum_again;
      }
    }
    for (int i = 0; i < ROWS; ++i) {
      const auto rescale = [&] {
        rows[i].l *= factor[i][0];
        for (float& o : rows[i].O) o *= factor[i][1];
      };
      if (!rescaled_late) rescale();
      if (!dropped || !missed) {
        rows[i].l += sum[i];
        add_output(rows[i], S[i], tile);
      }
      if (rescaled_late) rescale();
    }
  }
};

using Wrong = exercise::Wrong<Way>;

static const std::vector<Wrong>& wrong_ways() {
  using W = Way;
  static const std::vector<Wrong> wrong = {
      {"spoiled-sum-kept",
       "the sum of the first try is in l: it was added before the check, or not set back to 0 for "
       "the second try",
       {{.spoiled = W::kAdded}, {.spoiled = W::kNotReset}}},
      {"spoiled-output-kept",
       "O += S V was done before the check, with weights that are of no use",
       {{.spoiled = W::kOutputToo}, {.spoiled = W::kOutputAlone}}},
      {"not-rescaled",
       "m grew, and l or O, or both, still belong to the old one: times exp(m - m'), with the old "
       "m, for once m' is written to m that is 1",
       {{.l_factor = W::kOne, .o_factor = W::kOne}, {.l_factor = W::kOne}, {.o_factor = W::kOne}}},
      {"rescaled-twice",
       "l or O, or both, were multiplied by the factor twice",
       {{.l_times = 2, .o_times = 2}, {.l_times = 2}, {.o_times = 2}}},
      {"rescaled-with-the-tile",
       "l and O were multiplied behind the sums, and this tile's part with them; it belongs to m' "
       "already",
       {{.rescaled_late = true}}},
      {"factor-upside-down",
       "the factor is exp(m' - m); it is exp(m - m')",
       {{.l_factor = W::kUpsideDown, .o_factor = W::kUpsideDown}}},
      {"maximum-of-the-tile",
       "m' is the maximum of this tile, also in a row where that is below m: m must not sink. m' = "
       "max(m, tile)",
       {{.max = W::kOfTheTile}}},
      {"maximum-of-both-rows",
       "m' is one number for both rows; above a row's maximum its weights may vanish",
       {{.max = W::kOfBothRows}}},
      {"weights-for-scores",
       "what was exponentiated again, and looked at for a maximum, are the weights of the first "
       "try; S has to be computed again",
       {{.again = W::kWeights}}},
      {"scores-kept",
       "the numbers are right, but the scores were kept or come from elsewhere; on the GPU there "
       "are no registers for a copy: ask tile.scores again",
       {{.again = W::kKept}}},
      {"infinity-minus-infinity",
       "all scores are -inf, m' too, and -inf - (-inf) is NaN: subtract 0, in the factor and in "
       "the weights of the second try",
       {{.weights_guarded = false, .factor_guarded = false},
        {.factor_guarded = false},
        {.weights_guarded = false}}},
      {"guarded-in-the-first-try",
       "with m = -inf the first try subtracted 0, and its weights passed; m is still -inf, and l "
       "and O belong to 0. Let the first try fail",
       {{.first_guarded = true}}},
      {"nan-passes",
       "a sum that is NaN passes; -inf - (-inf) is NaN as long as m is -inf, and it means again: "
       "!(sum < LIMIT)",
       {{.check = W::kNanPasses}}},
      {"finite-is-good-enough",
       "a sum passes if it is finite; the limit is LIMIT",
       {{.check = W::kNotInf}}},
      {"l-checked",
       "l was checked, the sum of all tiles so far; a tile misses by its own sum",
       {{.check = W::kWithL}}},
      {"one-row-checked",
       "the sum of one row was checked; the other may be too large",
       {{.check = W::kRow0}, {.check = W::kRow1}}},
      {"never-again",
       "no sum was checked, and weights that are of no use are in l and O",
       {{.check = W::kNever}}},
      {"always-again", "tiles that are good enough are done again, too", {{.check = W::kAlways}}},
      {"looks-first",
       "the maximum was looked for before the weights, in each tile: right, and what was to be "
       "saved",
       {{.looks_first = true}}},
      {"one-row-again",
       "only the row that missed was exponentiated again; the product has computed both, and the "
       "other one's S are scores now",
       {{.one_row = true}}},
      {"tile-dropped",
       "a tile that missed is not in l and O: behind the second try they are added as in any other",
       {{.dropped = true}}},
  };
  return wrong;
}

struct Case {
  Row rows[ROWS];
  float S[ROWS][KEYS];
};

static Tile tile_of(const Case& c) {
  Tile tile = {{{1, 2}, {3, 1}, {2, 5}, {4, 3}}, {}};
  std::copy(&c.S[0][0], &c.S[0][0] + ROWS * KEYS, &tile.known[0][0]);
  return tile;
}

struct After {
  exercise::Numbers rows, calls;
};

template <class Step>
static After after(const Case& c, Step step) {
  Row rows[ROWS] = {c.rows[0], c.rows[1]};
  const Tile tile = tile_of(c);
  step(rows, tile);
  After result{{}, {static_cast<double>(tile.calls)}};
  for (const Row& row : rows)
    for (const float number : {row.m, row.l, row.O[0], row.O[1]}) result.rows.push_back(number);
  return result;
}

static void check_step(const Case& c) {
  std::string seen;
  bool none = false;  // of a row with m = -inf it may be known before that it misses
  for (int i = 0; i < ROWS; ++i) {
    seen += (i ? "\nrow " : "row ") + std::to_string(i) + ": m " + exercise::text(c.rows[i].m) +
            ", scores";
    for (const float s : c.S[i]) seen += " " + exercise::text(s);
    none |= c.rows[i].m == NEG_INF;
  }
  INFO(seen);
  const After got = after(c, [](auto& rows, const Tile& tile) { step_on_demand(rows, tile); });
  const auto of = [&](const Way& way) {
    return after(c, [&](auto& rows, const Tile& tile) { way.step(rows, tile); });
  };
  const After expected = of({});
  std::vector<exercise::Mistake> rows, calls;
  for (const Wrong& wrong : wrong_ways())
    for (const Way& way : wrong.ways) {
      const After other = of(way);
      rows.push_back({wrong.name, other.rows, wrong.explanation});
      calls.push_back({wrong.name, other.calls, wrong.explanation});
    }
  exercise::check_output({"rows", 4, 1e-5, {"m", "l", "O[0]", "O[1]"}}, got.rows, expected.rows,
                         rows);
  if (!none) exercise::check_output({"calls of scores", 0, 0}, got.calls, expected.calls, calls);
}

TEST_CASE("good enough: scores below m") {
  check_step({{{4, 2, {3, 1}}, {1, 1, {2, 2}}}, {{1, 2.5f, -1, 3}, {0, -2, 1, 0.5f}}});
}
TEST_CASE("good enough: scores above m") {
  check_step({{{1, 2, {3, 1}}, {-2, 1, {2, 2}}}, {{1, 2.5f, 9, 3}, {28, -2, 1, 20}}});
}
TEST_CASE("good enough: l is large") {
  check_step({{{1, 0x1p51f, {0x1p52f, 0x1p51f}}, {1, 1, {2, 2}}}, {{1, 30, 0, 2}, {0, 1, 2, 3}}});
}
TEST_CASE("row 0 misses") {
  check_step({{{1, 8, {9, 7}}, {3, 2, {3, 1}}}, {{1, 36.5f, 37.5f, 2}, {1, 2.5f, -1, 0}}});
}
TEST_CASE("row 1 misses, with weights of Inf") {
  check_step({{{4, 2, {3, 1}}, {-1, 5, {2, 7}}}, {{1, 2.5f, -1, 3}, {95, -2, 96, 94}}});
}
TEST_CASE("row 1 misses, and the old part counts") {
  check_step({{{4, 2, {3, 1}}, {-1, 0x1p60f, {0x1p59f, 0x1p61f}}},
              {{1, 2.5f, -1, 3}, {39, 40, -2, 38.5f}}});
}
TEST_CASE("both miss") {
  check_step({{{4, 0x1p58f, {0x1p60f, 0x1p59f}}, {-1, 0x1p60f, {0x1p59f, 0x1p61f}}},
              {{45, 44, -1, 3}, {39, 40, -2, 38.5f}}});
}
TEST_CASE("row 0 has not seen a key yet") {
  check_step({{{NEG_INF, 0, {0, 0}}, {3, 2, {3, 1}}}, {{1, 2.5f, -1, 3}, {1, 2.5f, -1, 0}}});
}
TEST_CASE("row 1 has not seen a key yet, and does not see all of these") {
  check_step({{{3, 2, {3, 1}}, {NEG_INF, 0, {0, 0}}}, {{1, 2.5f, -1, 0}, {NEG_INF, -3, -4, -2}}});
}
TEST_CASE("row 0 has not seen a key yet, nor does it see one here") {
  check_step({{{NEG_INF, 0, {0, 0}}, {3, 2, {3, 1}}},
              {{NEG_INF, NEG_INF, NEG_INF, NEG_INF}, {1, 2.5f, -1, 0}}});
}

// Whether the good row's m rises, too, is free: O / l and m + ln l are what they are.
TEST_CASE("row 0 misses, and row 1 has larger scores than before") {
  const Case c = {{{1, 8, {9, 7}}, {1, 8, {9, 7}}}, {{1, 36.5f, 37.5f, 2}, {1, 2.5f, 3, 0}}};
  const auto quotients = [&](auto step) {
    const After all = after(c, step);
    exercise::Numbers result;
    for (size_t row = 0; row < all.rows.size(); row += 4) {
      const double m = all.rows[row], l = all.rows[row + 1];
      for (const double number : {m + std::log(l), all.rows[row + 2] / l, all.rows[row + 3] / l})
        result.push_back(number);
    }
    return result;
  };
  const auto mistakes = exercise::mistakes(wrong_ways(), [&](const Way& way) {
    return quotients([&](auto& rows, const Tile& tile) { way.step(rows, tile); });
  });
  exercise::check_output(
      {"rows", 3, 1e-5, {"m + ln l", "O[0] / l", "O[1] / l"}},
      quotients([](auto& rows, const Tile& tile) { step_on_demand(rows, tile); }),
      quotients([](auto& rows, const Tile& tile) { Way{}.step(rows, tile); }), mistakes);
}
