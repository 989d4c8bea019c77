#include <doctest/doctest.h>

#include <cmath>
#include <done_again.hpp>

#include "exercises/support/verdict.hpp"

void Tile::scores(float (&S)[ROWS][KEYS]) const {
  ++calls;
  std::copy(&known[0][0], &known[0][0] + ROWS * KEYS, &S[0][0]);
}

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

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
    bool any = is("always-again");
    for (int i = 0; i < ROWS; ++i) {
      if ((is("row-0") && i != 0) || (is("row-1") && i != 1)) continue;
      any |= is("nan-passes")              ? sum[i] >= LIMIT
             : is("finite-is-good-enough") ? !std::isfinite(sum[i])
             : is("l-checked")             ? !(rows[i].l + sum[i] < LIMIT)
                                           : !(sum[i] < LIMIT);
    }
    return any && !is("never-again");
  }

  void step(Row (&rows)[ROWS], const Tile& tile) const {
    float S[ROWS][KEYS], first[ROWS][KEYS], sum[ROWS] = {};
    tile.scores(S);
    std::copy(&S[0][0], &S[0][0] + ROWS * KEYS, &first[0][0]);
    bool good[ROWS] = {};
    if (!is("looks-first"))
      for (int i = 0; i < ROWS; ++i) {
        sum[i] = weights_of(S[i], guarded(rows[i].m, is("guarded-in-the-first-try")));
        good[i] = sum[i] < LIMIT;
      }
    const bool missed = is("looks-first") || too_large(rows, sum);
    float factor[ROWS][2] = {{1, 1}, {1, 1}};  // factors of l and of O
    if (missed) {
      for (int i = 0; i < ROWS; ++i) {
        if (is("added") || is("output-too")) rows[i].l += sum[i];
        if (is("output-too") || is("output-alone")) add_output(rows[i], S[i], tile);
      }
      if (!is.any("weights-for-scores", "scores-kept", "looks-first")) tile.scores(S);
      if (is("scores-kept")) std::copy(&first[0][0], &first[0][0] + ROWS * KEYS, &S[0][0]);
      for (int i = 0; i < ROWS; ++i) {
        if (is("one-row-again") && good[i]) continue;
        float largest = is("maximum-of-the-tile") ? NEG_INF : rows[i].m;
        for (int other = 0; other < ROWS; ++other)
          for (int key = 0; key < KEYS; ++key)
            if (other == i || is("maximum-of-both-rows"))
              largest = std::max(largest, S[other][key]);
        const float minus = guarded(largest, !is("factor-unguarded"));
        const auto of = [&](const std::string& name) {
          if (is(name + "-not-rescaled")) return 1.0f;
          const float one =
              is("factor-upside-down") ? std::exp(minus - rows[i].m) : std::exp(rows[i].m - minus);
          return is(name + "-twice") ? one * one : one;
        };
        factor[i][0] = of("l");
        factor[i][1] = of("o");
        rows[i].m = largest;
        const float sum_again = weights_of(S[i], guarded(largest, !is("weights-unguarded")));
        sum[i] = is("not-reset") ? sum[i] + sum_again : sum_again;
      }
    }
    for (int i = 0; i < ROWS; ++i) {
      const auto rescale = [&] {
        rows[i].l *= factor[i][0];
        for (float& o : rows[i].O) o *= factor[i][1];
      };
      if (!is("rescaled-with-the-tile")) rescale();
      if (!is("tile-dropped") || !missed) {
        rows[i].l += sum[i];
        add_output(rows[i], S[i], tile);
      }
      if (is("rescaled-with-the-tile")) rescale();
    }
  }
};

static const exercise::Table MISTAKES(R"(
spoiled-sum-kept: added; not-reset
  the sum of the first try is in l: it was added before the check, or not set back to 0 for the
  second try
spoiled-output-kept: output-too; output-alone
  O += S V was done before the check, with weights that are of no use
not-rescaled: l-not-rescaled o-not-rescaled; {l,o}-not-rescaled
  m grew, and l or O, or both, still belong to the old one: times exp(m - m'), with the old m, for
  once m' is written to m that is 1
rescaled-twice: l-twice o-twice; {l,o}-twice
  l or O, or both, were multiplied by the factor twice
rescaled-with-the-tile
  l and O were multiplied after the sums, and this tile's part with them. This part belongs to m'
  already
factor-upside-down
  the factor is exp(m' - m). It should be exp(m - m')
maximum-of-the-tile
  m' is the maximum of this tile, even in a row where that is below m. m must not decrease: m' =
  max(m, tile)
maximum-of-both-rows
  m' is one number for both rows. Above a row's maximum its weights may vanish
weights-for-scores
  the weights of the first try were exponentiated, and their maximum was taken. S has to be
  recomputed
scores-kept
  the numbers are right, but the scores were kept or come from elsewhere. On the GPU there are no
  registers for a copy: ask tile.scores again
infinity-minus-infinity: weights-unguarded {,factor-unguarded}; factor-unguarded
  all scores are -inf, m' too, and -inf - (-inf) is NaN: subtract 0, in the factor and in the
  weights of the second try
guarded-in-the-first-try
  with m = -inf the first try subtracted 0, and its weights passed. m is still -inf, and l and O
  belong to 0. Let the first try fail
nan-passes
  a sum that is NaN passes. -inf - (-inf) is NaN as long as m is -inf, and it means again: !(sum <
  LIMIT)
finite-is-good-enough
  a sum passes if it is finite. The limit is LIMIT
l-checked
  l was checked, the sum of all tiles so far. But a tile misses by its own sum
one-row-checked: row-0; row-1
  the sum of one row was checked. The other may be too large
never-again
  no sum was checked, and weights that are of no use are in l and O
always-again
  tiles that are good enough are recomputed, too
looks-first
  the maximum was computed before the weights in each tile: right, but this is the work that the
  method saves
one-row-again
  only the row that missed was exponentiated again. The product has recomputed both rows, and the
  other row's S are scores now
tile-dropped
  a tile that missed is not in l and O. After the second try it is added as any other tile is
)");

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
  bool none = false;  // a row with m = -inf is known to miss in advance
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
  for (const exercise::Row& row : MISTAKES) {
    const After other = of({row.changes});
    rows.push_back({row.name, other.rows, row.explanation});
    calls.push_back({row.name, other.calls, row.explanation});
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

// The good row's m may rise or stay, because O / l and m + ln l are the same.
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
  const auto mistakes = exercise::mistakes<Way>(MISTAKES, [&](const Way& way) {
    return quotients([&](auto& rows, const Tile& tile) { way.step(rows, tile); });
  });
  exercise::check_output(
      {"rows", 3, 1e-5, {"m + ln l", "O[0] / l", "O[1] / l"}},
      quotients([](auto& rows, const Tile& tile) { step_on_demand(rows, tile); }),
      quotients([](auto& rows, const Tile& tile) { Way{}.step(rows, tile); }), mistakes);
}
