#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <one_pair.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr float INF = std::numeric_limits<float>::infinity();

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  double weight(const Pair& t, int i, int j) const {
    const bool seen = is("mask-turned") ? t.sees(j, i) : t.sees(i, j);
    if (!seen && !is.any("seen", "hidden-score-zero", "minus-inf", "times-zero")) return 0;
    const double lse = is("lse-forgotten") ? 0 : t.LSE[i];
    const double s = seen || is("seen") || is("times-zero") ? t.S(i, j)
                     : is("hidden-score-zero")              ? 0
                                                            : -INF;
    if (is("exponential-forgotten")) return t.scale * s - lse;
    const double x = is("scale-not-in-p")    ? s - lse
                     : is("lse-scaled")      ? t.scale * (s - lse)
                     : is("exponent-turned") ? lse - t.scale * s
                                             : t.scale * s - lse;
    return (is("power-of-two")     ? std::exp2(x)
            : is("divided-by-lse") ? std::exp(t.scale * s) / lse
                                   : std::exp(x)) *
           (!seen && is("times-zero") ? 0 : 1);
  }
  void add_pair(const Pair& t, Gradients& sum) const {
    const auto power = [&](const char* name, int right) {
      return std::pow(double{t.scale}, is.integer(name, right));
    };
    const double scales[] = {power("scale-dv", 0), power("scale-dq", 1), power("scale-dk", 1)};
    for (const auto& [name, one] :
         {std::pair{"clears-dq", &sum.dQ}, {"clears-dk", &sum.dK}, {"clears-dv", &sum.dV}})
      if (is(name)) std::fill(one->data().begin(), one->data().end(), 0.0f);
    for (int i = 0; i < t.queries; ++i) {
      for (int j = 0; j < t.keys; ++j) {
        if (is("skips-hidden") && !t.sees(i, j)) continue;
        const double w = weight(t, i, j), dP = t.dP(i, j);
        const double D = is("d-forgotten") ? 0 : is("d-of-the-key") ? t.D[j] : t.D[i];
        const double gradient = is("d-added")        ? w * (dP + D)
                                : is("no-p")         ? dP - D
                                : is("dp-forgotten") ? w * -D
                                : is("outside")      ? w * dP - D
                                : is("sign-turned")  ? w * (D - dP)
                                                     : w * (dP - D);
        for (int d = 0; d < t.dim; ++d) {
          const auto add = [](float& to, double x) { to = static_cast<float>(to + x); };
          const bool hides = !t.sees(i, j);
          const double for_v = is("masks-dv") && hides               ? 0
                               : is("dv-from-ds") || is("exchanged") ? gradient
                                                                     : w;
          const double for_ds = is("masks-ds") && hides ? 0 : gradient;
          const double for_q = is("dq-from-p") || is("exchanged") ? w : for_ds,
                       for_k = is("exchanged") ? w : for_ds;
          const double dO = is("dv-from-q") ? t.Q(i, d) : t.dO(i, d);
          const double K = is("dq-from-q") ? t.Q(i, d) : t.K(j, d);
          const double Q = is("dk-from-k") ? t.K(j, d) : is("dk-from-do") ? t.dO(i, d) : t.Q(i, d);
          const bool v = is("transposed-dv"), q = is("transposed-dq"), k = is("transposed-dk");
          add(sum.dV(v ? i : j, d), scales[0] * for_v * (v ? t.dO(j, d) : dO));
          add(sum.dQ(q ? j : i, d), scales[1] * for_q * (q ? t.K(i, d) : K));
          add(sum.dK(k ? i : j, d), scales[2] * for_k * (k ? t.Q(j, d) : Q));
        }
      }
    }
  }
};

static const exercise::Table MISTAKES(R"(
scale-not-in-dk: scale-dk=0
  dK has no scale: S = scale Q K.T, so dK is scale dS.T Q
scale-not-in-dq: scale-dq=0
  dQ has no scale: S = scale Q K.T, so dQ is scale dS K
scale-in-neither: scale-dq=0 scale-dk=0
  dQ and dK have no scale: S = scale Q K.T, and the chain rule brings it back in both
scale-twice: scale-dq=2 scale-dk=2; scale-dq=2; scale-dk=2
  scale is in dQ or dK twice: once in dS, and once more in the sum
scale-in-dv: scale-dv=1
  dV was multiplied by scale. It should be P.T dO
scale-not-in-p
  P is e^(S - LSE). LSE is of the scaled scores: e^(scale S - LSE)
lse-scaled
  LSE was multiplied by scale with S. But LSE is of the scaled scores already: e^(scale S - LSE)
lse-forgotten
  P is e^(scale S). Without LSE the weights of a row do not add up to 1
divided-by-lse
  e^(scale S) was divided by LSE. That is a logarithm: e^(scale S - LSE)
power-of-two
  P is a power of 2. LSE is a natural logarithm: e^(scale S - LSE)
exponent-turned
  P is e^(LSE - scale S). It should be e^(scale S - LSE)
mask-forgotten: seen; seen masks-dv; seen masks-ds
  hidden keys have a weight: LSE does not know of them, so their P is some number, and must be
  made 0
hidden-score-zero
  hidden keys score 0, and e^(0 - LSE) is some number. Their P is 0
nan-where-nothing-is-seen: minus-inf; times-zero
  a query that sees no key has LSE -inf. -inf - (-inf) is NaN, and so is e^inf * 0: choose P = 0 for
  a hidden key, and use no exponential of it
mask-turned
  sees(j, i) was asked. The order is sees(query, key)
exponential-forgotten
  P is scale S - LSE. It should be e to the power of that
d-forgotten
  dS is P dP. It should be P (dP - D)
d-added
  D was added: P (dP - D)
d-of-the-key
  D was taken by the key, D[j]. It belongs to the query
dp-forgotten
  dS is -P D. It should be P (dP - D)
d-outside-the-bracket: outside; outside skips-hidden
  dS is P dP - D. It should be P (dP - D)
sign-turned
  dS has the other sign: P (dP - D), not P (D - dP)
p-forgotten: no-p; no-p skips-hidden
  dS is dP - D without the factor P
not-added: clears-{dq,dk,dv}; clears-dq clears-{dk,dv}; clears-dk clears-dv;
    clears-dq clears-dk clears-dv
  the sums were overwritten. Other pairs have added to them already: +=
p-and-ds-exchanged: exchanged; dv-from-ds; dq-from-p
  P and dS are exchanged in a product: dV is from P, dQ and dK are from dS
wrong-matrix: dq-from-q; dk-from-k; dv-from-q; dk-from-do
  a product has the wrong matrix: P.T dO, dS K and dS.T Q
transposed: transposed-{dv,dq,dk}
  row and column of P or dS are exchanged: i is a row of dQ, Q and dO, j one of dK, dV and K
)");

// A head has all its queries and keys, and P, LSE, D in float64.
struct Head {
  int queries, keys, dim;
  bool causal;
  float scale = 0.6f;
  std::vector<float> Q = random(queries, 1), K = random(keys, 2), V = random(keys, 3),
                     dO = random(queries, 4);
  Numbers P = Numbers(queries * keys), dP = P, LSE = Numbers(queries), D = LSE;

  std::vector<float> random(int rows, int seed) const {
    std::vector<float> all = exercise::random_numbers(rows * dim, seed);
    for (float& one : all) one += 0.5f;
    return all;
  }
  int end_key(int i) const { return causal ? std::clamp(i + keys - queries + 1, 0, keys) : keys; }
  double dot(const std::vector<float>& a, int i, const std::vector<float>& b, int j) const {
    double sum = 0;
    for (int d = 0; d < dim; ++d) sum += double{a[i * dim + d]} * b[j * dim + d];
    return sum;
  }
  void differentiate() {
    for (int i = 0; i < queries; ++i) {
      double l = 0;
      for (int j = 0; j < end_key(i); ++j) l += P[i * keys + j] = std::exp(scale * dot(Q, i, K, j));
      LSE[i] = std::log(l);
      for (int j = 0; j < end_key(i); ++j) P[i * keys + j] /= l;
      for (int j = 0; j < keys; ++j) dP[i * keys + j] = dot(dO, i, V, j);
      for (int j = 0; j < end_key(i); ++j) D[i] += P[i * keys + j] * dP[i * keys + j];
    }
  }
  // L = sum of dO O
  double loss() const {
    double sum = 0;
    for (int i = 0; i < queries; ++i) {
      double l = 0, o = 0;
      for (int j = 0; j < end_key(i); ++j) {
        const double p = std::exp(scale * dot(Q, i, K, j));
        l += p;
        o += p * dot(dO, i, V, j);
      }
      if (end_key(i) > 0) sum += o / l;
    }
    return sum;
  }
  Pair pair(int first_q, int block_q, int first_k, int block_k) const {
    const auto rows = [&](const char* name, const std::vector<float>& from, int first, int block) {
      Matrix tile(name, block, dim);
      std::copy_n(from.begin() + first * dim, block * dim, tile.data().begin());
      return tile;
    };
    Pair t{block_q,
           block_k,
           dim,
           rows("Q", Q, first_q, block_q),
           rows("dO", dO, first_q, block_q),
           rows("K", K, first_k, block_k),
           Matrix("S", block_q, block_k),
           Matrix("dP", block_q, block_k),
           Matrix("LSE", block_q, 1),
           Matrix("D", block_q, 1),
           scale,
           Matrix("mask", block_q, block_k)};
    for (int i = 0; i < block_q; ++i) {
      for (int j = 0; j < block_k; ++j) {
        t.S(i, j) = static_cast<float>(dot(Q, first_q + i, K, first_k + j));
        t.dP(i, j) = static_cast<float>(dP[(first_q + i) * keys + first_k + j]);
        t.mask(i, j) = first_k + j < end_key(first_q + i) ? 1.0f : 0.0f;
      }
      t.LSE(i, 0) = static_cast<float>(LSE[first_q + i]);
      t.D(i, 0) = static_cast<float>(D[first_q + i]);
    }
    return t;
  }
};

// Numbers of dQ, dK and dV after `way` has added the pairs of a head, or what it threw.
struct Added {
  Numbers dQ, dK, dV;
  std::string thrown;
};

template <class Add>
static Added added(const Head& head, int block_q, int block_k, float before, Add add) {
  const auto sums = [&](const char* name, int rows) {
    Matrix sum(name, rows, head.dim);
    std::fill(sum.data().begin(), sum.data().end(), before);
    return sum;
  };
  Added result;
  const auto keep = [](Numbers& all, const Matrix& tile, size_t at) {
    if (all.size() < at + tile.data().size()) all.resize(at + tile.data().size());
    std::copy(tile.data().begin(), tile.data().end(), all.begin() + at);
  };
  try {
    std::vector<Matrix> dQ;
    for (int i = 0; i < head.queries; i += block_q)
      dQ.push_back(sums("dQ", std::min(block_q, head.queries - i)));
    for (int j = 0; j < head.keys; j += block_k) {
      const int keys = std::min(block_k, head.keys - j);
      Gradients sum{Matrix("dQ", 0, 0), sums("dK", keys), sums("dV", keys)};
      for (int i = 0; i < head.queries; i += block_q) {
        std::swap(sum.dQ, dQ[i / block_q]);
        add(head.pair(i, std::min(block_q, head.queries - i), j, keys), sum);
        std::swap(sum.dQ, dQ[i / block_q]);
      }
      keep(result.dK, sum.dK, j * head.dim);
      keep(result.dV, sum.dV, j * head.dim);
    }
    for (size_t tile = 0; tile < dQ.size(); ++tile)
      keep(result.dQ, dQ[tile], tile * block_q * head.dim);
  } catch (const std::out_of_range& error) {
    result.thrown = error.what();
  }
  return result;
}

static void check_head(Head head, int block_q, int block_k, float before = 0) {
  head.differentiate();
  const auto run = [&](const auto& add) { return added(head, block_q, block_k, before, add); };
  const auto with = [&](const Way& way) {
    return run([&](const Pair& t, Gradients& sum) { way.add_pair(t, sum); });
  };
  const Added got = run([](const Pair& t, Gradients& sum) { add_pair(t, sum); });
  const Added expected = with({});
  std::vector<Added> seen;
  std::vector<exercise::Look> looks;
  for (const exercise::Row& row : MISTAKES) {
    seen.push_back(with({row.changes}));
    looks.push_back({row.name, seen.back().thrown.empty() ? "" : "thrown", row.explanation});
  }
  if (!got.thrown.empty())
    return exercise::check_shown(false, "there is no " + got.thrown, "thrown", looks);
  for (const auto& [name, tensor] :
       {std::pair{"dV", &Added::dV}, {"dQ", &Added::dQ}, {"dK", &Added::dK}}) {
    std::vector<exercise::Mistake> mistakes;
    for (size_t i = 0; i < looks.size(); ++i)
      mistakes.push_back({looks[i].name, seen[i].thrown.empty() ? seen[i].*tensor : Numbers{},
                          looks[i].explanation});
    exercise::check_output({name, head.dim, 1e-4}, got.*tensor, expected.*tensor, mistakes);
  }
}

TEST_CASE("one query, one key") { check_head({1, 1, 2, false}, 1, 1); }
TEST_CASE("a pair that is all visible") { check_head({2, 3, 2, false}, 2, 3); }
TEST_CASE("sums that have something in them") { check_head({2, 3, 2, false}, 2, 3, 10); }
TEST_CASE("a pair on the diagonal") { check_head({4, 4, 3, true}, 4, 4); }
TEST_CASE("two queries see no key") { check_head({4, 2, 3, true}, 4, 2); }
TEST_CASE("a head in pairs of 2 x 3, the last ones smaller") {
  check_head({5, 7, 4, false}, 2, 3);
  check_head({5, 7, 4, true}, 2, 3);
}

// The gradients that this test expects are the derivatives of L.
TEST_CASE("central differences") {
  Head head{3, 4, 2, true};
  head.differentiate();
  const Added expected =
      added(head, 3, 4, 0, [](const Pair& t, Gradients& s) { Way{}.add_pair(t, s); });
  const auto differences = [&](std::vector<float>& tensor) {
    Numbers result;
    for (float& one : tensor) {
      const float kept = one;
      one = kept + 0x1p-10f;
      const double above = head.loss();
      one = kept - 0x1p-10f;
      result.push_back((above - head.loss()) * 0x1p9);
      one = kept;
    }
    return result;
  };
  CHECK(exercise::difference({"dQ", 2, 1e-4}, expected.dQ, differences(head.Q)).empty());
  CHECK(exercise::difference({"dK", 2, 1e-4}, expected.dK, differences(head.K)).empty());
  CHECK(exercise::difference({"dV", 2, 1e-4}, expected.dV, differences(head.V)).empty());
}
