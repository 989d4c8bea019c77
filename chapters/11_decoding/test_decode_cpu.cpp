// Compares decoding on the CPU with softmax in float64, for all pages and splits. Memory that must
// not be read is NaN.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "common/check.hpp"
#include "common/half.hpp"
#include "cpu_decode.hpp"
#include "tree.hpp"

using namespace ch11;
using ch02::AttentionState;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Uniformly distributed in [-1, 1), with the same values on every machine.
struct Random {
  std::mt19937_64 bits;
  explicit Random(uint64_t seed) : bits(seed) {}

  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(bits() % static_cast<uint64_t>(most - least + 1));
  }
  double number() { return static_cast<double>(bits() >> 11) * 0x1p-52 - 1; }
  template <class Real>
  std::vector<Real> numbers(int64_t count, double factor = 1) {
    std::vector<Real> values(count);
    for (Real& value : values) value = static_cast<Real>(factor * number());
    return values;
  }
};

// The result: O [rows, dim] and LSE [rows].
template <class Real>
struct Result {
  std::vector<Real> O, LSE;
  bool operator==(const Result&) const = default;  // a NaN is not equal

  Result(int64_t rows, int64_t dim) : O(rows * dim, Real(NAN)), LSE(rows, Real(NAN)) {}
};

// Returns max |a − b|. Equal infinities differ by 0. Returns NaN if any difference is NaN.
template <class A, class B>
double largest_difference(const std::vector<A>& a, const std::vector<B>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = double(a[i]), y = double(b[i]), difference = x == y ? 0 : std::abs(x - y);
    largest = fa::max_keeping_nan(difference, largest);
  }
  return largest;
}

// Computes softmax(x) @ v and log Σ e^x over `keys` keys in float64, with one pass per sum.
template <class Score, class Value>
void plain_softmax(int64_t keys, int64_t dim, Score x, Value v, double* O, double* LSE) {
  double m = -kInf, l = 0;
  for (int64_t j = 0; j < keys; ++j) m = std::max(m, x(j));
  std::fill_n(O, dim, 0.0);
  *LSE = -kInf;
  if (m == -kInf) return;
  for (int64_t j = 0; j < keys; ++j) l += std::exp(x(j) - m);
  for (int64_t j = 0; j < keys; ++j) {
    const double p = std::exp(x(j) - m) / l;
    for (int64_t d = 0; d < dim; ++d) {
      if (p != 0) O[d] += p * v(j, d);
    }
  }
  *LSE = m + std::log(l);
}

// ---- a batch with contiguous keys, and with pages ----

struct Sizes {
  int64_t kv_heads, group, len_q, dim, page_size;
  std::vector<int32_t> lengths;

  int64_t batch() const { return std::ssize(lengths); }
  int64_t heads() const { return kv_heads * group; }
  int64_t rows() const { return batch() * heads() * len_q; }
  // includes at least one entry of garbage after the pages of each sequence
  int64_t columns() const {
    int64_t most = 0;
    for (const int64_t length : lengths) most = std::max(most, length);
    return ceil_div(most, page_size) + 1;
  }
  int64_t used_pages() const {
    int64_t pages = 0;
    for (const int64_t length : lengths) pages += ceil_div(length, page_size);
    return pages;
  }
};

template <class Real>
struct Batch {
  Sizes sizes;
  Real scale;
  std::vector<Real> Q;                  // [batch, heads, len_q, dim]
  std::vector<std::vector<Real>> K, V;  // per sequence [kv_heads, length, dim]

  Batch(const Sizes& sizes, uint64_t seed, double sharpness = 1)
      : sizes(sizes), scale(Real(1 / std::sqrt(double(sizes.dim)))) {
    Random random(seed);
    Q = random.numbers<Real>(sizes.rows() * sizes.dim, 3 * sharpness);
    for (const int64_t length : sizes.lengths) {
      K.push_back(random.numbers<Real>(sizes.kv_heads * length * sizes.dim, 3));
      V.push_back(random.numbers<Real>(sizes.kv_heads * length * sizes.dim));
    }
  }

  Result<double> expected() const {
    const int64_t len_q = sizes.len_q, dim = sizes.dim;
    Result<double> result(sizes.rows(), dim);
    for (int64_t row = 0; row < sizes.rows(); ++row) {
      const int64_t query = row % len_q, head = row / len_q % sizes.heads();
      const int64_t n = row / len_q / sizes.heads(), length = sizes.lengths[n];
      const int64_t first = head / sizes.group * length * dim;
      const auto x = [&](int64_t j) {
        double sum = 0;
        for (int64_t d = 0; d < dim; ++d) {
          sum += double(Q[row * dim + d]) * double(K[n][first + j * dim + d]);
        }
        return double(scale) * sum;
      };
      const auto v = [&](int64_t j, int64_t d) { return double(V[n][first + j * dim + d]); };
      const int64_t keys = std::max<int64_t>(0, length - len_q + query + 1);
      plain_softmax(keys, dim, x, v, &result.O[row * dim], &result.LSE[row]);
    }
    return result;
  }
};

// The keys and values in the pages of `table`. All other elements are NaN.
template <class Real>
struct Cache {
  const Batch<Real>& batch;
  int64_t pages;
  std::vector<int32_t> table;          // [batch, columns]
  std::vector<Real> K_pages, V_pages;  // [pages, kv_heads, page_size, dim]

  Cache(const Batch<Real>& batch, int64_t pages, std::vector<int32_t> table)
      : batch(batch), pages(pages), table(std::move(table)) {
    const auto& [kv_heads, group, len_q, dim, page_size, lengths] = batch.sizes;
    K_pages.assign(pages * kv_heads * page_size * dim, Real(NAN));
    V_pages = K_pages;
    for (int64_t n = 0; n < batch.sizes.batch(); ++n) {
      for (int64_t head = 0; head < kv_heads; ++head) {
        for (int64_t j = 0; j < lengths[n]; ++j) {
          const int64_t page = this->table[n * batch.sizes.columns() + j / page_size];
          const int64_t from = (head * lengths[n] + j) * dim;
          const int64_t to = ((page * kv_heads + head) * page_size + j % page_size) * dim;
          std::copy_n(&batch.K[n][from], dim, &K_pages[to]);
          std::copy_n(&batch.V[n][from], dim, &V_pages[to]);
        }
      }
    }
  }

  Step<Real> step() const {
    const Sizes& sizes = batch.sizes;
    Step<Real> step;
    step.batch = sizes.batch();
    step.heads = sizes.heads();
    step.kv_heads = sizes.kv_heads;
    step.len_q = sizes.len_q;
    step.dim = sizes.dim;
    step.pages = pages;
    step.page_size = sizes.page_size;
    step.columns = sizes.columns();
    step.scale = batch.scale;
    step.Q = batch.Q.data();
    step.K_pages = K_pages.data();
    step.V_pages = V_pages.data();
    step.table = table.data();
    step.lengths = sizes.lengths.data();
    return step;
  }

  Result<Real> decode(int64_t splits, int64_t block_kv) const {
    Partials<Real> partials;
    Result<Real> result(batch.sizes.rows(), batch.sizes.dim);
    ch11::decode(step(), splits, block_kv, partials, result.O.data(), result.LSE.data());
    return result;
  }
};

template <class Real>
Cache<Real> scattered(const Batch<Real>& batch, uint64_t seed) {
  const Sizes& sizes = batch.sizes;
  const int64_t pages = 2 * sizes.used_pages() + 3;  // most of them unused
  return {batch, pages,
          scattered_table(sizes.lengths, sizes.columns(), sizes.page_size, pages, seed)};
}

template <class Real>
Cache<Real> consecutive(const Batch<Real>& batch) {
  const Sizes& sizes = batch.sizes;
  PagePool pool(sizes.used_pages());
  PageTable table(pool, sizes.batch(), sizes.columns(), sizes.page_size);
  for (int64_t n = 0; n < sizes.batch(); ++n) REQUIRE(table.append(n, sizes.lengths[n]));
  const auto rows = table.table();
  return {batch, pool.size(), {rows.begin(), rows.end()}};
}

template <class Real>
constexpr double kBound = std::is_same_v<Real, double> ? 1e-13 : 1e-5;

template <class Real>
void check_agrees(const Result<Real>& result, const Result<double>& expected) {
  double bound = kBound<Real>;
  CHECK_FALSE(!(largest_difference(result.O, expected.O) <= bound));
  for (const double lse : expected.LSE) {  // the rounding error grows with |LSE|
    if (std::isfinite(lse)) bound = std::max(bound, kBound<Real> * std::abs(lse) / 10);
  }
  CHECK_FALSE(!(largest_difference(result.LSE, expected.LSE) <= bound));
}

std::vector<int32_t> random_lengths(Random& random, int64_t page_size, int64_t longest) {
  std::vector<int32_t> lengths(random.between(1, 4));
  for (int32_t& length : lengths) {
    const int64_t pages = page_size * random.between(0, longest / page_size);
    switch (random.between(0, 5)) {
      case 0:
        length = 0;
        break;
      case 1:
        length = 1;
        break;
      case 2:
        length = int32_t(pages);
        break;
      case 3:
        length = int32_t(pages + 1);
        break;
      case 4:
        length = int32_t(std::max<int64_t>(pages - 1, 0));
        break;
      default:
        length = int32_t(random.between(0, longest));
    }
  }
  return lengths;
}

template <class Real>
void check_random_batches(uint64_t seed) {
  Random random(seed);
  Partials<Real> partials;  // one for all batches, because values of the last batch must not matter
  for (const int64_t page_size : {1, 3, 16, 64, 256}) {
    for (int round = 0; round < 6; ++round) {
      const Batch<Real> batch(
          {random.between(1, 3), random.between(1, 4), random.between(1, 4), random.between(1, 20),
           page_size, random_lengths(random, page_size, 300)},
          random.bits());
      const Cache<Real> cache = scattered(batch, random.bits());
      const Result<double> expected = batch.expected();
      for (const int64_t splits : {1, 2, 3, 4, 5, 6, 7, 8, 9, 400}) {
        const int64_t block_kv = std::array{1, 16, 64}[random.between(0, 2)];
        CAPTURE(page_size);
        CAPTURE(round);
        CAPTURE(splits);
        CAPTURE(block_kv);
        Result<Real> result(batch.sizes.rows(), batch.sizes.dim);
        decode(cache.step(), splits, block_kv, partials, result.O.data(), result.LSE.data());
        check_agrees(result, expected);
      }
    }
  }
}

// ---- splits without keys at the start ----

template <class Real>
struct Splits {
  int64_t splits, rows, dim;
  std::vector<Real> O, LSE;  // [splits, rows, dim], [splits, rows]

  Splits(int64_t splits, int64_t rows, int64_t dim, uint64_t seed, double spread = 3)
      : splits(splits), rows(rows), dim(dim) {
    Random random(seed);
    O = random.numbers<Real>(splits * rows * dim, 2);
    LSE = random.numbers<Real>(splits * rows, spread);
  }

  // Sets a split without keys as attend_split leaves it, or with NaN as in unwritten memory.
  void empty(int64_t split, int64_t row, Real o = 0) {
    LSE[split * rows + row] = Real(-kInf);
    std::fill_n(&O[(split * rows + row) * dim], dim, o);
  }

  Result<Real> combined() const {
    Result<Real> result(rows, dim);
    combine(splits, rows, dim, O.data(), LSE.data(), result.O.data(), result.LSE.data());
    return result;
  }
  Result<double> expected() const {
    Result<double> result(rows, dim);
    for (int64_t row = 0; row < rows; ++row) {
      const auto x = [&](int64_t s) { return double(LSE[s * rows + row]); };
      const auto v = [&](int64_t s, int64_t d) { return double(O[(s * rows + row) * dim + d]); };
      plain_softmax(splits, dim, x, v, &result.O[row * dim], &result.LSE[row]);
    }
    return result;
  }
};

}  // namespace

// ---- attention ----

TEST_CASE("any lengths, heads, queries, pages and splits: softmax in float64") {
  check_random_batches<double>(1);
  check_random_batches<float>(2);
}

TEST_CASE("one key, by hand: its value, and its score as LSE") {
  Batch<double> batch({1, 2, 1, 2, 16, {1}}, 1);
  batch.scale = 0.5;
  batch.Q = {2, 3, -1, 0};
  batch.K = {{5, 7}};
  batch.V = {{11, 13}};
  const Result<double> result = scattered(batch, 1).decode(3, 16);
  CHECK(result.O == std::vector<double>{11, 13, 11, 13});
  CHECK(result.LSE == std::vector<double>{15.5, -2.5});
}

TEST_CASE("where the pages lie changes no bit") {
  for (const int64_t page_size : {1, 3, 16, 64, 256}) {
    for (const int64_t splits : {1, 5}) {
      const Batch<float> batch({2, 2, 2, 32, page_size, {257, 0, 64, 100}}, 3);
      const Result<float> result = consecutive(batch).decode(splits, 16);
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const Cache<float> cache = scattered(batch, seed);
        CHECK(cache.table != consecutive(batch).table);
        CHECK(cache.decode(splits, 16) == result);
      }
    }
  }
  // The page size does not matter either.
  const auto decoded = [](int64_t page_size) {
    const Batch<float> batch({2, 2, 2, 32, page_size, {257, 0, 64, 100}}, 3);
    return scattered(batch, 5).decode(3, 16);
  };
  CHECK(decoded(1) == decoded(64));
}

TEST_CASE("the number of splits changes the rounding and nothing else") {
  const Batch<float> batch({1, 2, 1, 32, 16, {1000}}, 4);
  const Cache<float> cache = scattered(batch, 4);
  const Result<float> whole = cache.decode(1, 16);
  bool another = false;
  for (int64_t splits = 2; splits <= 70; ++splits) {
    const Result<float> result = cache.decode(splits, 16);
    CHECK_FALSE(!(largest_difference(result.O, whole.O) <= 1e-6));
    CHECK_FALSE(!(largest_difference(result.LSE, whole.LSE) <= 5e-6));
    another |= result != whole;
  }
  CHECK(another);
  CHECK(cache.decode(5, 16) == cache.decode(5, 16));
}

TEST_CASE("several new queries: query i sees the first length - len_q + i + 1 keys") {
  const Batch<double> batch({1, 2, 4, 8, 16, {3, 4, 40, 0}}, 5);
  const Cache<double> cache = scattered(batch, 5);
  for (const int64_t splits : {1, 2, 3, 9}) {
    const Result<double> result = cache.decode(splits, 1);
    check_agrees(result, batch.expected());
    CHECK(result.LSE[0] == -kInf);  // 4 queries and 3 keys: the first query sees no key
    for (int64_t d = 0; d < 8; ++d) CHECK(result.O[d] == 0);
    for (int64_t d = 0; d < 8; ++d) CHECK(result.O[8 + d] == doctest::Approx(batch.V[0][d]));
  }
  // The last query alone gives the same bits.
  Batch<double> last = batch;
  last.sizes.len_q = 1;
  last.Q.clear();
  for (int64_t row = 3; row < batch.sizes.rows(); row += 4) {
    last.Q.insert(last.Q.end(), &batch.Q[row * 8], &batch.Q[row * 8] + 8);
  }
  const Result<double> four = cache.decode(2, 16), one = scattered(last, 6).decode(2, 16);
  for (int64_t row = 0; row < last.sizes.rows(); ++row) {
    CHECK(one.LSE[row] == four.LSE[row * 4 + 3]);
    for (int64_t d = 0; d < 8; ++d) CHECK(one.O[row * 8 + d] == four.O[(row * 4 + 3) * 8 + d]);
  }
}

TEST_CASE("a tree: each new token alone, with a table that has its branch only") {
  const std::vector<std::vector<int64_t>> parents = {{-1, 0, 0, 1, 1}, {-1, -1, 1, 1, 0}};
  const Batch<double> batch({1, 2, 5, 8, 1, {5, 40}}, 11);
  Cache<double> cache = scattered(batch, 11);
  std::vector<uint64_t> words;
  for (const auto& tree : parents) {
    const auto more = tree_words(tree);
    words.insert(words.end(), more.begin(), more.end());
  }
  Step<double> step = cache.step();
  step.tree = words.data();
  Result<double> got(batch.sizes.rows(), 8);
  Partials<double> partials;
  decode(step, 3, 4, partials, got.O.data(), got.LSE.data());
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t token = 0; token < 5; ++token) {
      const int64_t before = batch.sizes.lengths[n] - 5;
      std::vector<int32_t> branch;  // pages of one key
      for (int64_t at = token; at >= 0; at = parents[n][at])
        branch.insert(branch.begin(), step.table[n * step.columns + before + at]);
      branch.insert(branch.begin(), step.table + n * step.columns,
                    step.table + n * step.columns + before);
      const int32_t length = static_cast<int32_t>(branch.size());
      for (int64_t head = 0; head < 2; ++head) {
        const int64_t row = (n * 2 + head) * 5 + token;
        Step<double> one = step;
        one.batch = one.heads = one.len_q = 1, one.columns = length, one.tree = nullptr;
        one.Q = step.Q + row * 8, one.table = branch.data(), one.lengths = &length;
        Result<double> expected(1, 8);
        decode(one, 1, 4, partials, expected.O.data(), expected.LSE.data());
        CHECK(got.LSE[row] == doctest::Approx(expected.LSE[0]));
        for (int64_t d = 0; d < 8; ++d) CHECK(got.O[row * 8 + d] == doctest::Approx(expected.O[d]));
      }
    }
}

TEST_CASE("splits without keys, and rows that see none of a split, leave 0 and -inf") {
  const Batch<float> batch({1, 1, 2, 4, 16, {33, 0, 1}}, 7);
  const Cache<float> cache = scattered(batch, 7);
  Partials<float> partials;
  partials.O.assign(10000, NAN);
  partials.LSE.assign(10000, NAN);
  Result<float> result(6, 4);
  decode(cache.step(), 5, 16, partials, result.O.data(), result.LSE.data());
  // [split][row], with queries 0 and 1 of each sequence. 33 keys are three tiles, and query 0 sees
  // 32 of them.
  const bool seen[5][6] = {{true, true, false, false, false, true}, {true, true}, {false, true}};
  for (int64_t split = 0; split < 5; ++split) {
    for (int64_t row = 0; row < 6; ++row) {
      CAPTURE(split);
      CAPTURE(row);
      CHECK(std::isfinite(partials.LSE[split * 6 + row]) == seen[split][row]);
      if (seen[split][row]) continue;
      CHECK(partials.LSE[split * 6 + row] == -kInf);
      for (int64_t d = 0; d < 4; ++d) CHECK(partials.O[(split * 6 + row) * 4 + d] == 0);
    }
  }
  check_agrees(result, batch.expected());
}

TEST_CASE("sharp scores, of either sign") {
  for (const double sharpness : {-1000.0, -30.0, 30.0, 1000.0}) {
    const Batch<double> batch({2, 2, 2, 16, 16, {100, 17}}, 8, sharpness);
    check_agrees(scattered(batch, 8).decode(4, 16), batch.expected());
    const Batch<float> in_float({2, 2, 2, 16, 16, {100, 17}}, 8, sharpness);
    for (const float lse : scattered(in_float, 8).decode(4, 16).LSE) CHECK(std::isfinite(lse));
  }
}

TEST_CASE("a NaN in a key or a value that is seen shows, also as the first and only one") {
  for (const int64_t length : {1, 40}) {
    for (const bool in_key : {true, false}) {
      for (const int64_t at : {int64_t{0}, length - 1}) {
        Batch<float> batch({1, 2, 1, 4, 16, {int32_t(length)}}, 9);
        (in_key ? batch.K : batch.V)[0][at * 4 + 2] = NAN;
        const Result<float> result = scattered(batch, 9).decode(3, 16);
        CHECK(std::isnan(result.O[2]));
        CHECK(std::isnan(result.LSE[0]) == in_key);
        CHECK(std::isnan(result.O[0]) == in_key);
      }
    }
  }
}

TEST_CASE("a sequence that grows a token at a time, and one that takes the other's pages") {
  constexpr int64_t kv_heads = 2, page_size = 3, dim = 5;
  const Batch<double> batch({kv_heads, 2, 1, dim, page_size, {20, 11}}, 10);
  PagePool pool(9);  // 7 + 2, so that the second sequence has no room for its last pages
  PageTable table(pool, 2, batch.sizes.columns(), page_size);
  std::vector<double> K_pages(pool.size() * kv_heads * page_size * dim, NAN), V_pages = K_pages;
  const auto append = [&](int64_t n, int64_t from) {
    if (!table.append(n, 1)) return false;
    const Place place = table.place(n, table.length(n) - 1);
    for (int64_t head = 0; head < kv_heads; ++head) {
      const int64_t key = (head * batch.sizes.lengths[n] + from) * dim;
      const int64_t to = ((place.page * kv_heads + head) * page_size + place.row) * dim;
      std::copy_n(&batch.K[n][key], dim, &K_pages[to]);
      std::copy_n(&batch.V[n][key], dim, &V_pages[to]);
    }
    return true;
  };
  for (int64_t t = 0; t < 20; ++t) {
    REQUIRE(append(0, t));
    if (t < 6) REQUIRE(append(1, t));
  }
  REQUIRE_FALSE(append(1, 6));
  table.release(0);
  for (int64_t t = 6; t < 11; ++t) REQUIRE(append(1, t));
  Step<double> step = consecutive(batch).step();
  step.pages = pool.size();
  step.K_pages = K_pages.data();
  step.V_pages = V_pages.data();
  step.table = table.table().data();
  step.lengths = table.lengths().data();
  Result<double> result(batch.sizes.rows(), dim);
  Partials<double> partials;
  decode(step, 2, 4, partials, result.O.data(), result.LSE.data());
  const Result<double> expected = batch.expected();
  for (int64_t row = 0; row < 4; ++row) {
    CHECK(result.LSE[row] == -kInf);  // the released sequence
    CHECK_FALSE(!(std::abs(result.LSE[4 + row] - expected.LSE[4 + row]) <= 1e-13));
  }
  for (int64_t i = 4 * dim; i < 8 * dim; ++i) {
    CHECK_FALSE(!(std::abs(result.O[i] - expected.O[i]) <= 1e-13));
  }
}

TEST_CASE("what decode refuses") {
  const Batch<float> batch({2, 2, 1, 4, 16, {20, 40}}, 11);
  const Cache<float> cache = scattered(batch, 11);
  Result<float> result(batch.sizes.rows(), 4);
  Partials<float> partials;
  const auto refuses = [&](auto change, int64_t splits = 2, int64_t block_kv = 16) {
    Step<float> step = cache.step();
    change(step);
    CHECK_THROWS_AS(decode(step, splits, block_kv, partials, result.O.data(), result.LSE.data()),
                    fa::InputError);
  };
  refuses([](auto&) {}, 0);
  refuses([](auto&) {}, 2, 0);
  refuses([](auto& step) { step.heads = 3; });
  refuses([](auto& step) { step.heads = 0; });
  refuses([](auto& step) { step.kv_heads = 0; });
  refuses([](auto& step) { step.len_q = 0; });
  refuses([](auto& step) { step.dim = 0; });
  refuses([](auto& step) { step.batch = -1; });
  refuses([](auto& step) { step.page_size = 0; });
  refuses([](auto& step) { step.page_size = 257; });
  refuses([](auto& step) { step.columns = 1; });
  refuses([](auto& step) { step.pages = 1; });
  const int32_t negative[] = {-1, 3}, too_long[] = {20, 1000};
  refuses([&](auto& step) { step.lengths = negative; });
  refuses([&](auto& step) { step.lengths = too_long; });
  const int32_t past_the_pages[] = {20, 49};  // the fourth entry of the table is garbage
  refuses([&](auto& step) { step.lengths = past_the_pages; });
  CHECK(std::isnan(result.O[0]));  // nothing was written
}

// ---- add_key and combine ----

TEST_CASE("add_key is chapter 02's merge with one key, bit for bit") {
  Random random(12);
  for (int round = 0; round < 200; ++round) {
    AttentionState<float> state(6), merged(6);
    for (int64_t key = random.between(0, 30); key > 0; --key) {
      const auto v = random.numbers<float>(6);
      const float x = random.between(0, 4) == 0 ? float(-kInf) : float(20 * random.number());
      add_key(state, x, v.data());
      merged = merge(merged, AttentionState<float>(x, v));
      REQUIRE(state.m == merged.m);
      REQUIRE(state.l == merged.l);
      REQUIRE(state.o == merged.o);
    }
  }
}

TEST_CASE("combine is chapter 02's merge of the splits' own states") {
  Random random(13);
  for (int round = 0; round < 50; ++round) {
    const int64_t splits = random.between(1, 9);
    constexpr int64_t dim = 6;
    AttentionState<double> whole(dim);
    std::vector<double> O(splits * dim), LSE(splits), o(dim);
    double lse = NAN;
    for (int64_t split = 0; split < splits; ++split) {
      AttentionState<double> state(dim);
      for (int64_t key = random.between(0, 5); key > 0; --key) {
        const auto v = random.numbers<double>(dim);
        state = merge(state, AttentionState<double>(10 * random.number(), v));
      }
      finish(state, &O[split * dim], &LSE[split]);
      whole = merge(whole, state);
    }
    std::vector<double> expected(dim);
    double expected_lse = NAN;
    finish(whole, expected.data(), &expected_lse);
    combine(splits, int64_t{1}, dim, O.data(), LSE.data(), o.data(), &lse);
    CHECK_FALSE(!(largest_difference(o, expected) <= 1e-14));
    CHECK_FALSE(!(largest_difference(std::vector{lse}, std::vector{expected_lse}) <= 1e-14));
  }
}

// The sizes and the rule of FlashAttention's test_flash_attn_combine: LSE within 1e-5, and O in
// fp32 too. In 16 bits the error of O may be at most twice that of the exact O after rounding. As
// there, some rows have no values in the later half of the splits. Differences: the numbers are
// uniform, the exact O is in float64, and the rows are the queries of one sequence, without 5
// sequences and 16 heads.
void check_combine_sizes(int64_t most_numbers) {
  for (const int64_t splits : {1, 2, 3, 5, 17, 32, 55, 97, 133}) {
    for (const int64_t rows : {1, 2, 3, 32, 64, 256, 113, 108, 640, 1024}) {
      for (const int64_t dim : {64, 96, 128, 192, 256, 512}) {
        if (splits * rows * dim > most_numbers) continue;
        CAPTURE(splits);
        CAPTURE(rows);
        CAPTURE(dim);
        Splits<float> partial(splits, rows, dim, uint64_t(splits * 10000 + rows));
        for (int64_t row = 0; row < (rows + 2) / 3; ++row) {
          for (int64_t split = splits / 2; split < splits; ++split) partial.empty(split, row);
        }
        const Result<float> result = partial.combined();
        const Result<double> expected = partial.expected();
        CHECK_FALSE(!(largest_difference(result.LSE, expected.LSE) <= 1e-5));
        CHECK_FALSE(!(largest_difference(result.O, expected.O) <= 1e-5));
        const auto error = [&](const auto& O, auto round) {  // after rounding O
          std::vector<float> rounded(O.size());
          std::ranges::transform(O, rounded.begin(),
                                 [&](double x) { return fa::to_float(round(float(x))); });
          return largest_difference(rounded, expected.O);
        };
        CHECK_FALSE(!(error(result.O, fa::to_bf16) <= 2 * error(expected.O, fa::to_bf16)));
        CHECK_FALSE(!(error(result.O, fa::to_fp16) <= 2 * error(expected.O, fa::to_fp16)));
      }
    }
  }
}

TEST_CASE("combine: FlashAttention's sizes, up to 300000 numbers") { check_combine_sizes(300'000); }
TEST_CASE("combine: all of FlashAttention's sizes" * doctest::test_suite("large")) {
  check_combine_sizes(std::numeric_limits<int64_t>::max());
}

TEST_CASE(
    "combine: splits without keys, first, last, all but one, all; what they hold is not read") {
  constexpr int64_t splits = 5, rows = 7, dim = 8;
  for (const double garbage : {0.0, double(NAN), kInf}) {
    Splits<double> partial(splits, rows, dim, 14);
    const auto empty = [&](int64_t split, int64_t row) { partial.empty(split, row, garbage); };
    empty(0, 0);
    empty(4, 1);
    for (int64_t split = 0; split < splits; ++split) {
      if (split != 2) empty(split, 2);
      if (split != 0) empty(split, 3);
      if (split != 4) empty(split, 4);
      empty(split, 5);
    }
    const Result<double> result = partial.combined();
    check_agrees(result, partial.expected());
    for (const auto& [row, split] :
         {std::pair{2, 2}, {3, 0}, {4, 4}}) {  // one split stays as it is
      CHECK(result.LSE[row] == partial.LSE[split * rows + row]);
      for (int64_t d = 0; d < dim; ++d) {
        CHECK(result.O[row * dim + d] == partial.O[(split * rows + row) * dim + d]);
      }
    }
    CHECK(result.LSE[5] == -kInf);
    for (int64_t d = 0; d < dim; ++d) CHECK(result.O[5 * dim + d] == 0);
  }
  Splits<double> none(0, 2, 3, 15);
  CHECK(none.combined().LSE == std::vector<double>(2, -kInf));
}

TEST_CASE("combine: LSE large and very negative, no overflow") {
  for (const float far : {90.0f, 1e4f, 1e30f, std::numeric_limits<float>::max()}) {
    for (const float sign : {-1.0f, 1.0f}) {
      Splits<float> partial(3, 3, 4, 16);
      for (int64_t split = 0; split < 3; ++split) {
        partial.LSE[split * 3] = sign * far;                         // all splits have the same LSE
        partial.LSE[split * 3 + 1] = split == 1 ? far : -far;        // one split has all the weight
        partial.LSE[split * 3 + 2] = split == 1 ? sign * far : 0.f;  // others are ordinary
      }
      const Result<float> result = partial.combined();
      const Result<double> expected = partial.expected();
      CHECK_FALSE(!(largest_difference(result.O, expected.O) <= 1e-6));
      for (int64_t row = 0; row < 3; ++row) {
        const double difference = std::abs(double(result.LSE[row]) - expected.LSE[row]);
        CHECK_FALSE(!(difference <= 1e-6 + 1e-7 * std::abs(expected.LSE[row])));
      }
    }
  }
}

TEST_CASE("combine: the order of the splits changes the rounding and nothing else") {
  Random random(17);
  for (int round = 0; round < 30; ++round) {
    const int64_t splits = random.between(2, 40), rows = 3, dim = 5;
    Splits<double> partial(splits, rows, dim, random.bits(), 20);
    if (round % 2 == 0) partial.empty(random.between(0, splits - 1), 1);
    Splits<double> permuted = partial;
    std::vector<int64_t> order(splits);
    std::iota(order.begin(), order.end(), 0);
    fa::simt::shuffle(order, random.bits);
    for (int64_t split = 0; split < splits; ++split) {
      std::copy_n(&partial.LSE[order[split] * rows], rows, &permuted.LSE[split * rows]);
      std::copy_n(&partial.O[order[split] * rows * dim], rows * dim,
                  &permuted.O[split * rows * dim]);
    }
    const Result<double> a = partial.combined(), b = permuted.combined();
    CHECK_FALSE(!(largest_difference(a.O, b.O) <= 1e-14));
    CHECK_FALSE(!(largest_difference(a.LSE, b.LSE) <= 1e-14 * 20));
  }
}

TEST_CASE("combine of one split is that split") {
  const Splits<float> partial(1, 10, 16, 18, 50);
  const Result<float> result = partial.combined();
  CHECK(result.O == partial.O);
  CHECK(result.LSE == partial.LSE);
}
