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

// The factors of the old sums and of the new terms, given e^(m - m').
struct Factors {
  float l, o, added;
};

enum When { kOnce, kForEachKey, kOForEachKey, kLForEachKey };  // the old sums are multiplied

// m, l, o after each tile, if next(m, the tile's maximum) is the new m, and a key's weight p(s, m',
// old m, the tile's maximum); the old sums move by factor(m, m').
template <class Next, class Factor, class Weight>
static Numbers states(const std::vector<Keys>& all, Next next, Factor factor, Weight weight) {
  Numbers result;
  float m = -tiles::kInfinity;
  std::vector<float> sums(1 + kDim);  // l, o
  for (const Keys& keys : all) {
    const float most = *std::max_element(keys.s.begin(), keys.s.end()), m_new = next(m, most);
    for (float& sum : sums) sum *= factor(m, m_new);
    for (size_t j = 0; j < keys.s.size(); ++j) {
      const float p = weight(keys.s[j], m_new, m, most);
      sums[0] += p;
      for (int d = 0; d < kDim; ++d) sums[1 + d] += p * keys.V()(j, d);
    }
    m = m_new;
    result.push_back(m);
    result.insert(result.end(), sums.begin(), sums.end());
  }
  return result;
}

// m, l, o after each tile. `tile_only`: m' is the maximum of the tile, whatever came before.
template <class Rule>
static Numbers states(const std::vector<Keys>& all, Rule rule, bool tile_only = false,
                      When when = kOnce) {
  Numbers result;
  float m = -tiles::kInfinity;
  std::vector<float> sums(1 + kDim);  // l, o
  for (const Keys& keys : all) {
    const float most = *std::max_element(keys.s.begin(), keys.s.end());
    const float m_new = tile_only ? most : std::max(m, most);
    const Factors factor = rule(std::exp(m - m_new));
    for (size_t j = 0; j < keys.s.size(); ++j) {
      if (j == 0 || when == kForEachKey || when == kLForEachKey) sums[0] *= factor.l;
      for (int d = 0; d < kDim && (j == 0 || when == kForEachKey || when == kOForEachKey); ++d)
        sums[1 + d] *= factor.o;
      const float p = factor.added * std::exp(keys.s[j] - m_new);
      sums[0] += p;
      for (int d = 0; d < kDim; ++d) sums[1 + d] += p * keys.V()(j, d);
    }
    m = m_new;
    result.push_back(m);
    result.insert(result.end(), sums.begin(), sums.end());
  }
  return result;
}

// The same with m' right, and a factor that is made of m and the tile's maximum.
template <class Factor>
static Numbers states_by_tile(const std::vector<Keys>& all, Factor factor) {
  float m = -tiles::kInfinity, most = 0;
  return states(
      all,
      [&](float old, float tile_max) {
        m = old, most = tile_max;
        return std::max(old, tile_max);
      },
      [&](float, float) { return factor(m, most); },
      [](float s, float m_new, float, float) { return std::exp(s - m_new); });
}

static void check_tiles(const std::vector<std::vector<float>>& scores) {
  std::vector<Keys> all;
  for (const auto& s : scores) {
    const int seed = static_cast<int>(all.size());
    all.push_back({s, exercise::random_numbers(static_cast<int>(s.size()) * kDim, seed)});
  }
  State state(kDim);
  Numbers got;
  for (const Keys& keys : all) {
    add_tile(state, keys.s, keys.V());
    got.insert(got.end(), {state.m, state.l});
    got.insert(got.end(), state.o.begin(), state.o.end());
  }
  const auto right = [](float f) { return Factors{f, f, 1}; };
  const auto larger = [](float m, float most) { return std::max(m, most); };
  const auto factor = [](float m, float m_new) { return std::exp(m - m_new); };
  const auto weight = [](float s, float m_new, float, float) { return std::exp(s - m_new); };
  // m is -inf before every tile: l and o are multiplied by e^-inf = 0 each time.
  Numbers not_stored = states(
      all, [](float, float most) { return most; }, [](float, float) { return 0.0f; }, weight);
  for (size_t i = 0; i < not_stored.size(); i += 2 + kDim) not_stored[i] = -tiles::kInfinity;
  // o is divided after every tile, and multiplied by the factor as it is.
  Numbers divided;
  for (State one(kDim); const Keys& keys : all) {
    tiles::add_tile(one, keys.s, {keys.v, keys.V().rows, kDim});
    for (float& value : one.o) value /= one.l;
    divided.insert(divided.end(), {one.m, one.l});
    divided.insert(divided.end(), one.o.begin(), one.o.end());
  }
  exercise::check_output(
      {"after tile", 2 + kDim, 1e-5, tiles::names_in_state(kDim)}, got, states(all, right),
      {{"o-not-rescaled",
        states(all,
               [](float f) {
                 return Factors{f, 1, 1};
               }),
        "l moved to the new maximum, o did not; o is a sum of the same e^(s - m)"},
       {"l-not-rescaled",
        states(all,
               [](float f) {
                 return Factors{1, f, 1};
               }),
        "o moved to the new maximum, l did not; then o / l is no average any more"},
       {"maximum-stored-too-early",
        states(all,
               [](float) {
                 return Factors{1, 1, 1};
               }),
        "neither l nor o moved: the factor is missing, or it is e^(m' - m') because m was "
        "overwritten before it was used"},
       {"rescale-on-new-terms",
        states(all,
               [](float f) {
                 return Factors{1, 1, f};
               }),
        "the factor is on the new terms; these are relative to m' already, the old sums are not"},
       {"rescale-after-adding",
        states(all,
               [](float f) {
                 return Factors{f, f, f};
               }),
        "everything was multiplied by the factor, the new terms too; rescale first, then add"},
       {"factor-upside-down",
        states(
            all, larger, [](float m, float m_new) { return std::exp(m_new - m); }, weight),
        "the factor was e^(m' - m), which is Inf at the first tile; the old sums must shrink when "
        "the maximum grows: e^(m - m')"},
       {"exponent-upside-down",
        states(all, larger, factor, [](float s, float m, float, float) { return std::exp(m - s); }),
        "the new terms are e^(m' - s), largest for the smallest score; they are e^(s - m')"},
       {"exponent-with-old-maximum",
        states(all, larger, factor,
               [](float s, float, float old, float) { return std::exp(s - old); }),
        "the new terms are e^(s - m) with the old maximum; take the new one, or they overflow"},
       {"terms-relative-to-tile",
        states(all, larger, factor,
               [](float s, float, float, float most) { return std::exp(s - most); }),
        "the new terms are relative to the maximum of this tile; they add up with the old sums "
        "only if both are relative to m'"},
       {"no-max-in-terms",
        states(all, larger, factor, [](float s, float, float, float) { return std::exp(s); }),
        "the new terms are e^s: the maximum is not subtracted"},
       {"max-starts-at-zero",
        states(
            all,
            [](float m, float most) {
              return std::max({m, most, 0.0f});
            },
            factor, weight),
        "m is never below 0; all scores may be negative, and then it is too large"},
       {"factor-of-the-tile",
        states_by_tile(all, [](float m, float most) { return std::exp(m - most); }),
        "the factor is e^(m - maximum of the tile); where the old maximum stays it must be 1: e^(m "
        "- m')"},
       {"old-sums-forgotten",
        states(all,
               [](float f) {
                 return Factors{0, f, 1};
               }),
        "l is that of the last tile alone: the old sum, times the factor, belongs to it"},
       {"old-sums-forgotten",
        states(all,
               [](float f) {
                 return Factors{f, 0, 1};
               }),
        "o is that of the last tile alone: the old sum, times the factor, belongs to it"},
       {"old-sums-forgotten",
        states(
            all, larger, [](float, float) { return 0.0f; }, weight),
        "l and o are those of the last tile alone: the old sums, times the factor, belong to them"},
       {"maximum-not-stored", not_stored,
        "m stays what it was before the first tile: store the new maximum at the end"},
       {"divided-already", divided, "o is divided by l; a state keeps the sum"},
       {"rescale-for-each-key", states(all, right, false, kForEachKey),
        "the factor is inside the loop over the keys, so that it multiplies the old sums and the "
        "earlier new terms once for each key; it belongs before the loop"},
       {"rescale-for-each-key", states(all, right, false, kOForEachKey),
        "o was multiplied by the factor once for each key of the tile; once for the tile is right, "
        "as for l"},
       {"rescale-for-each-key", states(all, right, false, kLForEachKey),
        "l was multiplied by the factor once for each key of the tile; once for the tile is right, "
        "as for o"},
       {"maximum-of-tile-only", states(all, right, true),
        "m is the maximum of the last tile, not of all keys; the factor can then be above 1, and "
        "overflow"}});
}

TEST_CASE("one tile") { check_tiles({{1, 2, 0.5f}}); }
TEST_CASE("the maximum grows with each tile") { check_tiles({{1, 2}, {3, 2.5f}, {4, 1}}); }
TEST_CASE("the maximum is in the first tile") { check_tiles({{5, 2}, {3, 2.5f}, {4, 1}}); }
TEST_CASE("far apart") { check_tiles({{100, 99}, {0, 1}, {150, 149}}); }
TEST_CASE("all scores are negative") { check_tiles({{-3, -5}, {-1, -2}}); }
