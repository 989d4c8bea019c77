#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <d_from_o.hpp>
#include <limits>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// O and dO of some heads. After the last head come rows of no head, because reading them is a
// mistake that shows as a number, not as a crash.
struct Case {
  int heads, len_q, dim, head, q_tile;
  std::vector<fa::bf16> O = values(1), dO = values(2);

  std::vector<fa::bf16> values(int seed) const {
    std::vector<fa::bf16> all;
    for (const float one : exercise::random_numbers((heads * len_q + BLOCK_Q + 1) * dim, seed))
      all.push_back(fa::to_bf16(one + 0.5f));
    return all;
  }
  double o(int row, int d) const { return fa::to_float(O[row * dim + d]); }
  double d_o(int row, int d) const { return fa::to_float(dO[row * dim + d]); }
};

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  Numbers D(const Case& c) const {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto rounded = [](double x) { return fa::to_float(fa::to_bf16(static_cast<float>(x))); };
    const int before = is("head-forgotten") ? 0
                       : is("head-padded")  ? c.head * ((c.len_q + BLOCK_Q - 1) / BLOCK_Q * BLOCK_Q)
                                            : c.head * c.len_q;
    Numbers result(BLOCK_Q, nan);
    double total = 0;
    for (int i = 0; i < BLOCK_Q; ++i) {
      const int query = (is("tile-for-row") ? c.q_tile : c.q_tile * BLOCK_Q) + i;
      const bool exists = query < c.len_q + is("one-row-too-many") || is("read") ||
                          is("last-query-repeated") ||
                          (is("length-of-all") && before + query < c.heads * c.len_q);
      if (is("sum-not-cleared")) total = nan;
      if (!is.any("sum-not-cleared", "carried-on")) total = 0;
      const int row = before + (is("last-query-repeated") ? std::min(query, c.len_q - 1) : query) +
                      is("one-row-too-far");
      for (int d = 0; exists && d < c.dim; ++d) {
        // for columns, row and column of the tile are exchanged
        const int r = is("sum-over-queries") ? before + c.q_tile * BLOCK_Q + d : row;
        const int column = is("sum-over-queries") ? i : d;
        if (static_cast<size_t>(r * c.dim + column) >= c.O.size()) continue;
        const double o = c.o(r, column), d_o = c.d_o(r, column);
        double product = is("o-squared")              ? o * o
                         : is("do-squared")           ? d_o * d_o
                         : is("added-for-multiplied") ? d_o + o
                                                      : d_o * o;
        if (is("products")) product = rounded(product);
        total = is("last-product-only") ? product : total + product;
        if (is("running")) total = rounded(total);
      }
      if (is("mean")) total /= c.dim;
      if (is("root")) total /= std::sqrt(c.dim);
      if (is("result")) total = rounded(total);
      const int at = i + (is.any("of-head", "of-tensor") ? c.q_tile * BLOCK_Q : 0) +
                     (is("of-tensor") ? before : 0);
      if (at < BLOCK_Q && (exists || !is("past-the-end-not-written")))
        result[at] = exists || !is("zero-past-the-end") ? total : 0;
    }
    return result;
  }
};

static const exercise::Table MISTAKES(R"(
tile-for-row
  q_tile was taken as a query. The first query of the tile is q_tile * BLOCK_Q
head-forgotten
  the rows are those of head 0. Before a head come head * len_q rows
head-padded
  a head was taken to be whole tiles long. O and dO have len_q rows for each head
one-row-too-far
  each D is that of the next row
past-the-end-read: read
  rows past the last query were read: they are the next head's, and their D is 0
past-the-end-read: length-of-all
  rows past the last query were read: the length was taken for all heads, and it is len_q for each
one-row-too-many
  row len_q was read. Rows count from 0, and len_q - 1 is the last
last-query-repeated
  rows past the last query have its D. Theirs is 0
place-of-the-query: of-head
  D was written at the query's number. D has the rows of this tile alone: D[i]
place-of-the-query: of-tensor
  D was written at the row's place in the tensor. D has the rows of this tile alone: D[i]
past-the-end-not-written
  D of rows past the last query was left as it was. It has to be 0
sum-not-cleared
  the sum was added to the old content of D. Begin with 0
sum-of-the-rows-before: carried-on {,zero-past-the-end}
  the sum of a row was added to the sums of the rows before it. Begin with 0 in each row
divided-by-dim: mean
  the sum was divided by dim. D is the sum
divided-by-dim: root
  the sum was divided by the root of dim. Scale is no part of D
o-squared
  O was multiplied by O. D is the sum of dO O
do-squared
  dO was multiplied by dO. D is the sum of dO O
last-product-only
  D is the last product of the row. Add them up
added-for-multiplied
  dO + O was summed. D is the sum of dO O
sum-over-queries
  row and column are exchanged: the sum goes over queries. It should go over the numbers of a row
rounded-to-bf16: products; running; result
  a sum or a product was rounded to bf16. D is fp32: widen O and dO before the product
)");

static std::vector<float> answer(const Case& c) {
  // Longer than necessary, so that an answer that writes elsewhere does not crash.
  std::vector<float> D(c.heads * c.len_q + 2 * BLOCK_Q, std::numeric_limits<float>::quiet_NaN());
  d_from_o(c.O.data(), c.dO.data(), c.len_q, c.dim, c.head, c.q_tile, D.data());
  D.resize(BLOCK_Q);
  return D;
}

static void check_tile(const Case& c) {
  const auto mistakes = exercise::mistakes<Way>(MISTAKES, [&](const Way& way) { return way.D(c); });
  exercise::check_output({"D", 0, 1e-5}, exercise::numbers(answer(c)), Way{}.D(c), mistakes);
}

TEST_CASE("a full tile") { check_tile({1, 8, 6, 0, 0}); }
TEST_CASE("the next tile") { check_tile({1, 8, 6, 0, 1}); }
TEST_CASE("the next head") { check_tile({2, 8, 6, 1, 0}); }
TEST_CASE("the last tile, two queries") { check_tile({2, 6, 5, 0, 1}); }
TEST_CASE("the last tile of the last head") { check_tile({3, 7, 5, 2, 1}); }
TEST_CASE("one query") { check_tile({2, 1, 8, 1, 0}); }
TEST_CASE("rows of 128 numbers") { check_tile({2, 13, 128, 1, 3}); }

// D in dS is the sum of P dP over the keys.
TEST_CASE("the sum of P dP") {
  Case c{1, 4, 16, 0, 0};
  const int keys = 9;
  const Numbers V = exercise::numbers(exercise::random_numbers(keys * c.dim, 3));
  Numbers by_keys;
  for (int i = 0; i < c.len_q; ++i) {
    Numbers P;
    double weights = 0, D = 0;
    for (const float s : exercise::random_numbers(keys, 4 + i)) P.push_back(std::exp(s));
    for (const double p : P) weights += p;
    for (int d = 0; d < c.dim; ++d) {
      double o = 0;
      for (int j = 0; j < keys; ++j) o += P[j] / weights * V[j * c.dim + d];
      c.O[i * c.dim + d] = fa::to_bf16(static_cast<float>(o));
    }
    for (int j = 0; j < keys; ++j) {
      double dP = 0;
      for (int d = 0; d < c.dim; ++d) dP += c.d_o(i, d) * V[j * c.dim + d];
      D += P[j] / weights * dP;
    }
    by_keys.push_back(D);
  }
  // O has been rounded, so this comparison is coarse, but the next one is not.
  CHECK(exercise::difference({"sum of P dP", 0, 0.02}, Way{}.D(c), by_keys).empty());
  check_tile(c);
}
