#include <doctest/doctest.h>

#include <one_tile.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// m, l, o with p = e^(factor * s - shift).
template <class Real = float>
static Numbers attended(const std::vector<float>& s, fa::View<const float> V, float m, float factor,
                        float shift, bool divided = false) {
  Numbers all = {m, 0};
  all.resize(2 + V.cols);
  for (int64_t j = 0; j < V.rows; ++j) {
    const Real p = std::exp(static_cast<Real>(factor * s[j] - shift));
    all[1] += p;
    for (int64_t d = 0; d < V.cols; ++d) all[2 + d] += p * V(j, d);
  }
  for (int64_t d = 0; divided && d < V.cols; ++d) all[2 + d] /= all[1];
  return all;
}

// The same with weights relative to the largest score so far, and never corrected.
static Numbers attended_meanwhile(const std::vector<float>& s, fa::View<const float> V) {
  float m = -tiles::kInfinity;
  Numbers all(2 + V.cols);
  for (int64_t j = 0; j < V.rows; ++j) {
    m = std::max(m, s[j]);
    const float p = std::exp(s[j] - m);
    all[1] += p;
    for (int64_t d = 0; d < V.cols; ++d) all[2 + d] += p * V(j, d);
  }
  all[0] = m;
  return all;
}

static const char* const kNoMax = "m is right, but p is e^s, because the maximum is not subtracted";

// `sign` of all scores, or 0 if mixed.
static void check_tile(int keys, int dim, float sharpness, int sign = 0) {
  const std::vector<float> q = exercise::random_numbers(dim, 1, sharpness),
                           v = exercise::random_numbers(keys * dim, 3);
  std::vector<float> k = exercise::random_numbers(keys * dim, 2);
  for (int i = 0; i < keys * dim && sign; ++i)
    k[i] = static_cast<float>(sign) * std::copysign(k[i], q[i % dim]);
  const fa::View<const float> K{k.data(), keys, dim}, V{v.data(), keys, dim};
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  const std::vector<float> raw = tiles::scores(q, {k, keys, dim}, 1);
  const float most = *std::max_element(raw.begin(), raw.end()), m = scale * most;

  const auto changed = [&](auto change) {
    Numbers all = attended(raw, V, m, scale, m);
    change(all);
    return all;
  };
  const Numbers last_only = changed([&](Numbers& all) {
    for (int d = 0; d < dim; ++d) all[2 + d] = std::exp(scale * raw[keys - 1] - m) * V(keys - 1, d);
  });
  const auto without = [&](int key, bool in_l, bool in_o) {
    return changed([&](Numbers& all) {
      const float p = std::exp(scale * raw[key] - m);
      if (in_l) all[1] -= p;
      for (int d = 0; d < dim && in_o; ++d) all[2 + d] -= p * V(key, d);
    });
  };
  std::vector<float> scaled, piled_up, piled_up_scaled;  // scores on top of those before
  for (const float score : raw) {
    scaled.push_back(scale * score);
    piled_up.push_back(piled_up.empty() ? score : piled_up.back() + score);
    piled_up_scaled.push_back(scale *
                              (piled_up_scaled.empty() ? score : piled_up_scaled.back() + score));
  }
  const auto from_scores = [&](const std::vector<float>& s, float factor) {
    const float largest = factor * *std::max_element(s.begin(), s.end());
    return attended(s, V, largest, factor, largest);
  };
  const char* const piled =
      "each score contains the previous ones, because the sum over d does not begin at 0 for each "
      "key";
  const State state = attend_tile(q, K, V, scale);
  Numbers got = {state.m, state.l};
  got.insert(got.end(), state.o.begin(), state.o.end());
  exercise::check_output(
      {"state", 0, 1e-4, tiles::names_in_state(dim)}, got, attended(raw, V, m, scale, m),
      {{"no-scale", attended(raw, V, most, 1, most),
        "the scores are q.k without the scale, 1 / sqrt(dim)"},
       {"divided-already", attended(raw, V, m, scale, m, true),
        "o is divided by l already. Leave it a sum, so that the next tile can be added to it"},
       {"maximum-before-scale", attended(raw, V, most, scale, most),
        "the maximum is that of q.k, the exponents are of scale * q.k. Take both from the same "
        "scores"},
       {"maximum-before-scale", attended(raw, V, most, scale, m),
        "l and o are right. m is the maximum of q.k, without the scale"},
       {"scale-in-maximum-only", attended(raw, V, m, 1, m),
        "m is the maximum of the scaled scores, and the exponents are of q.k without the scale"},
       {"summed-while-looking", attended_meanwhile(scaled, V),
        "l and o were computed in the loop that looks for the maximum, so that each p is relative "
        "to the largest score so far. Compute all scores and m first"},
       {"score-not-reset", from_scores(piled_up, scale), piled},
       {"score-not-reset", from_scores(piled_up_scaled, 1), piled},
       {"v-for-k", from_scores(tiles::scores(q, {v, keys, dim}, 1), scale),
        "the scores are of q and V. They should be of q and K"},
       {"k-for-v", attended(raw, K, m, scale, m),
        "o is the sum of p times K. It should be times V"},
       {"exponent-upside-down", attended(raw, V, m, -scale, -m),
        "p is e^(m - s), which is largest for the smallest score. It should be e^(s - m)"},
       {"scaled-twice", attended(raw, V, scale * m, scale * scale, scale * m),
        "the scores were multiplied by scale twice"},
       {"divided-by-scale", attended(raw, V, most / scale, 1 / scale, most / scale),
        "the scores were divided by scale. But scale is 1 / sqrt(dim) already"},
       {"max-starts-at-zero", attended(raw, V, std::max(m, 0.0f), scale, std::max(m, 0.0f)),
        "the maximum started at 0, and all scores of a tile may be negative"},
       {"maximum-not-stored", attended(raw, V, -tiles::kInfinity, scale, m),
        "l and o are right. state.m was never set"},
       {"weights-not-summed", changed([](Numbers& all) { all[1] = 0; }),
        "m and o are right. l, the sum of all p, was never added up"},
       {"summed-for-each-element", changed([&](Numbers& all) { all[1] *= dim; }),
        "p was added to l once for each element of o, because that line is inside the loop over d"},
       {"sum-starts-at-one", changed([](Numbers& all) { all[1] += 1; }),
        "m and o are right, and l is larger by 1: it began with 1, or the best key was added "
        "twice. Its p = 1 is in the sum already"},
       {"best-key-left-out", changed([](Numbers& all) { all[1] -= 1; }),
        "m and o are right, but l is smaller by 1, because the p of the best key is missing in the "
        "sum"},
       {"first-key-left-out", without(0, true, true), "l and o begin at the second key"},
       {"first-key-left-out", without(0, true, false), "l begins at the second key"},
       {"first-key-left-out", without(0, false, true), "o begins at the second key"},
       {"last-key-left-out", without(keys - 1, true, true), "l and o end before the last key"},
       {"last-key-left-out", without(keys - 1, true, false), "l ends before the last key"},
       {"last-key-left-out", without(keys - 1, false, true), "o ends before the last key"},
       {"keys-counted", changed([&](Numbers& all) { all[1] = keys; }),
        "l is the number of keys. It should be the sum of all p"},
       {"last-key-only", last_only, "o is that of the last key alone: += and not ="},
       {"last-key-only",
        changed([&](Numbers& all) { all[1] = std::exp(scale * raw[keys - 1] - m); }),
        "l is the p of the last key alone: += and not ="},
       {"no-max", attended(raw, V, m, scale, 0), kNoMax},
       {"no-max", attended<double>(raw, V, m, scale, 0), kNoMax}});
}

TEST_CASE("three keys") { check_tile(3, 4, 1); }
TEST_CASE("one key") { check_tile(1, 8, 1); }
TEST_CASE("a tile of 64 keys") { check_tile(64, 64, 1); }
TEST_CASE("sharp scores") { check_tile(16, 16, 30); }
TEST_CASE("every score is negative") { check_tile(5, 4, 1, -1); }
