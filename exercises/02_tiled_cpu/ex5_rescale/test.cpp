#include <doctest/doctest.h>

#include <rescale.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr int kDim = 3;

struct Keys {
  std::vector<float> s, v;
  fa::View<const float> V() const { return {v.data(), static_cast<int64_t>(s.size()), kDim}; }
};

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  float weight(float s, float m, float m_new, float most) const {
    return is("exponent-upside-down")        ? std::exp(m_new - s)
           : is("exponent-with-old-maximum") ? std::exp(s - m)
           : is("terms-relative-to-tile")    ? std::exp(s - most)
           : is("no-max-in-terms")           ? std::exp(s)
                                             : std::exp(s - m_new);
  }
  // m, l, o after each tile.
  Numbers states(const std::vector<Keys>& all) const {
    Numbers result;
    float m = -tiles::kInfinity, l = 0;
    std::vector<float> o(kDim);
    for (const Keys& keys : all) {
      const float most = *std::max_element(keys.s.begin(), keys.s.end());
      const float m_new = is("maximum-of-tile-only") ? most
                          : is("max-starts-at-zero") ? std::max({m, most, 0.0f})
                                                     : std::max(m, most);
      const float factor = is("factor-upside-down")   ? std::exp(m_new - m)
                           : is("factor-of-the-tile") ? std::exp(m - most)
                                                      : std::exp(m - m_new);
      for (size_t j = 0; j < keys.s.size(); ++j) {
        if (j == 0 || is("l-for-each-key")) l *= is("l-kept") ? 1 : is("l-lost") ? 0 : factor;
        for (float& x : o)
          if (j == 0 || is("o-for-each-key")) x *= is("o-kept") ? 1 : is("o-lost") ? 0 : factor;
        const float p = (is("terms-moved") ? factor : 1) * weight(keys.s[j], m, m_new, most);
        l += p;
        for (int d = 0; d < kDim; ++d) o[d] += p * keys.V()(j, d);
      }
      if (is("divided-already"))
        for (float& x : o) x /= l;
      if (!is("maximum-not-stored")) m = m_new;
      result.insert(result.end(), {m, l});
      result.insert(result.end(), o.begin(), o.end());
    }
    return result;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  Numbers states(const std::vector<Keys>& all) const {
    State state(kDim);
    Numbers result;
    for (const Keys& keys : all) {
      add_tile(state, keys.s, keys.V());
      result.insert(result.end(), {state.m, state.l});
      result.insert(result.end(), state.o.begin(), state.o.end());
    }
    return result;
  }
};

static const exercise::Table MISTAKES(R"(
o-not-rescaled: o-kept
  l moved to the new maximum, o did not. o is a sum of the same e^(s - m)
l-not-rescaled: l-kept
  o moved to the new maximum, l did not. Then o / l is no average any more
maximum-stored-too-early: l-kept o-kept
  neither l nor o moved: the factor is missing, or it is e^(m' - m') because m was overwritten before
  it was used
rescale-on-new-terms: l-kept o-kept terms-moved
  the factor is on the new terms. These are relative to m' already, the old sums are not
rescale-after-adding: terms-moved
  everything was multiplied by the factor, the new terms too. Rescale first, then add
factor-upside-down
  the factor was e^(m' - m), which is Inf at the first tile. The old sums must shrink when the
  maximum grows: e^(m - m')
exponent-upside-down
  the new terms are e^(m' - s), largest for the smallest score. They should be e^(s - m')
exponent-with-old-maximum
  the new terms are e^(s - m) with the old maximum. Take the new one, or they overflow
terms-relative-to-tile
  the new terms are relative to the maximum of this tile. They add up with the old sums only if both
  are relative to m'
no-max-in-terms
  the new terms are e^s: the maximum is not subtracted
max-starts-at-zero
  m is never below 0. All scores may be negative, and then it is too large
factor-of-the-tile
  the factor is e^(m - maximum of the tile). Where the old maximum stays it must be 1: e^(m - m')
old-sums-forgotten: l-lost
  l is that of the last tile alone: the old sum, times the factor, belongs to it
old-sums-forgotten: o-lost
  o is that of the last tile alone: the old sum, times the factor, belongs to it
old-sums-forgotten: l-lost o-lost
  l and o are those of the last tile alone: the old sums, times the factor, belong to them
maximum-not-stored
  m stays what it was before the first tile: store the new maximum at the end
divided-already
  o is divided by l. A state keeps the sum
rescale-for-each-key: l-for-each-key o-for-each-key
  the factor is inside the loop over the keys, so that it multiplies the old sums and the earlier
  new terms once for each key. It belongs before the loop
rescale-for-each-key: o-for-each-key
  o was multiplied by the factor once for each key of the tile. Once for the tile is right, as for l
rescale-for-each-key: l-for-each-key
  l was multiplied by the factor once for each key of the tile. Once for the tile is right, as for o
maximum-of-tile-only
  m is the maximum of the last tile, not of all keys. The factor can then be above 1, and overflow
)");

static void check_tiles(const std::vector<std::vector<float>>& scores) {
  std::vector<Keys> all;
  for (const auto& s : scores) {
    const int seed = static_cast<int>(all.size());
    all.push_back({s, exercise::random_numbers(static_cast<int>(s.size()) * kDim, seed)});
  }
  exercise::check_output<Way, Answer>({"after tile", 2 + kDim, 1e-5, tiles::names_in_state(kDim)},
                                      MISTAKES,
                                      [&](const auto& answer) { return answer.states(all); });
}

TEST_CASE("one tile") { check_tiles({{1, 2, 0.5f}}); }
TEST_CASE("the maximum grows with each tile") { check_tiles({{1, 2}, {3, 2.5f}, {4, 1}}); }
TEST_CASE("the maximum is in the first tile") { check_tiles({{5, 2}, {3, 2.5f}, {4, 1}}); }
TEST_CASE("far apart") { check_tiles({{100, 99}, {0, 1}, {150, 149}}); }
TEST_CASE("all scores are negative") { check_tiles({{-3, -5}, {-1, -2}}); }
