#include <doctest/doctest.h>

#include <cmath>
#include <heads.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  // The loops of split_heads or of join_heads, whose changes begin with "split-" or "join-".
  template <class Do>
  void for_all(const Shape& s, const std::string& of, Do what) const {
    const bool dim_for_heads = is(of + "dim-for-heads"), by_length = is(of + "length-for-heads");
    const int64_t B = (is("first-sequence-only") ? 1 : s.batch) + is.integer(of + "b", 0);
    const int64_t T = (by_length ? s.heads : s.length) + is.integer(of + "t", 0);
    const int64_t H = (dim_for_heads ? s.dim
                       : by_length   ? s.length
                                     : s.heads) +
                      is.integer(of + "h", 0);
    const int64_t D = (dim_for_heads ? s.heads : s.dim) + is.integer(of + "d", 0);
    const bool tokens_outside = is("tokens-outside");
    for (int64_t b = 0; b < B; ++b)
      for (int64_t i = 0; i < H * T; ++i)
        for (int64_t d = 0; d < D; ++d)
          if (tokens_outside)
            what(b, i % H, i / H, d);
          else
            what(b, i / T, i % T, d);
  }

  void split_heads(const Memory& QKV, const Shape& s, Memory& Q, Memory& K, Memory& V) const {
    static constexpr int ORDER[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1},
                                       {1, 2, 0}, {2, 1, 0}, {0, 0, 0}};
    const int order = is("qvk")         ? 1
                      : is("kqv")       ? 2
                      : is("vqk")       ? 3
                      : is("kvq")       ? 4
                      : is("vkq")       ? 5
                      : is("all-are-q") ? 6
                                        : 0;
    Memory* const out[] = {&Q, &K, &V};
    const int64_t B = s.batch, H = s.heads, T = s.length, D = s.dim, C = H * D;
    for_all(s, "split-", [&](int64_t b, int64_t h, int64_t t, int64_t d) {
      for (int which = 0; which < 3; ++which) {
        if ((is("k-forgotten") && which == 1) || (is("v-forgotten") && which == 2)) continue;
        const int64_t part = ORDER[order][which], channel = h * D + d;
        const int64_t row = is("batch-forgotten") ? t : is("tokens-first") ? t * B + b : b * T + t;
        const int64_t column = is("head-by-head")         ? h * 3 * D + part * D + d
                               : is("interleaved")        ? part * C + d * H + h
                               : is("channel-by-channel") ? channel * 3 + part
                               : is("head-forgotten")     ? part * C + d
                               : is("head-by-one")        ? part * C + h + d
                               : is("one-head-apart")     ? part * D + channel
                               : is("one-number-apart")   ? part + channel
                                                          : part * C + channel;
        const bool transposed = is("transposed") || (is("k-transposed") && which == 1);
        const int64_t at = is("not-moved")            ? ((b * T + t) * H + h) * D + d
                           : transposed               ? ((b * H + h) * D + d) * T + t
                           : is("batch-written-over") ? (h * T + t) * D + d
                           : is("heads-before-batch") ? ((h * B + b) * T + t) * D + d
                           : is("heads-overlap")      ? b * C * T + h * D + t * D + d
                           : is("length-for-heads")   ? ((b * T + h) * T + t) * D + d
                                                      : ((b * H + h) * T + t) * D + d;
        const int64_t from = is("rows-of-one-tensor")       ? row * C + column
                             : is("one-below-the-other")    ? (part * B * T + row) * C + channel
                             : is("three-tensors-in-a-row") ? part * B * T * C + at
                                                            : row * 3 * C + column;
        const float scale = is("q-scaled") && which == 0 ? 1 / std::sqrt(static_cast<float>(D)) : 1;
        (*out[which])[at] = QKV[from] * scale;
      }
    });
  }

  void join_heads(const Memory& O, const Shape& s, Memory& joined) const {
    const int64_t B = s.batch, H = s.heads, T = s.length, D = s.dim, C = H * D;
    if (is("nothing-joined")) return;
    for_all(s, "join-", [&](int64_t b, int64_t h, int64_t t, int64_t d) {
      const int64_t from = is("joined-transposed")           ? ((b * H + h) * D + d) * T + t
                           : is("joined-heads-before-batch") ? ((h * B + b) * T + t) * D + d
                                                             : ((b * H + h) * T + t) * D + d;
      const int64_t row = is("joined-batch-forgotten") ? t
                          : is("joined-tokens-first")  ? t * B + b
                                                       : b * T + t;
      const int64_t column = is("joined-interleaved")      ? d * H + h
                             : is("joined-head-forgotten") ? d
                             : is("joined-head-by-one")    ? h + d
                                                           : h * D + d;
      const int64_t at = is("joined-not-moved")      ? from
                         : is("rows-of-the-product") ? row * 3 * C + column
                                                     : row * C + column;
      if (is("added-for-written"))
        joined[at] += O[from];
      else
        joined[at] = O[from];
    });
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  void split_heads(const Memory& QKV, const Shape& s, Memory& Q, Memory& K, Memory& V) const {
    ::split_heads(QKV, s, Q, K, V);
  }
  void join_heads(const Memory& O, const Shape& s, Memory& joined) const {
    ::join_heads(O, s, joined);
  }
};

static const exercise::Table MISTAKES(R"(
heads-interleaved: interleaved; joined-interleaved; interleaved joined-interleaved
  number d of head h was taken for channel d * heads + h. A head's numbers lie side by side: h * dim
  + d
length-and-heads-not-exchanged: not-moved; joined-not-moved; not-moved joined-not-moved
  the numbers kept the order [batch, length, heads, dim]. A view moves nothing, and here length and
  heads have to change places
batch-forgotten: batch-forgotten; joined-batch-forgotten; batch-forgotten joined-batch-forgotten
  the row is t for every sequence. Those of sequence b begin at b * length
tokens-before-batch: tokens-first; joined-tokens-first; tokens-first joined-tokens-first
  the row is t * batch + b. The tokens of a sequence are in rows one after the other: b * length + t
head-forgotten: head-forgotten; joined-head-forgotten; head-forgotten joined-head-forgotten
  the column does not depend on h: all heads are head 0, or all are written over it. The column is h
  * dim + d
heads-one-number-apart: head-by-one; joined-head-by-one; head-by-one joined-head-by-one
  head h begins at channel h. Heads are dim numbers apart: h * dim
head-transposed: transposed; joined-transposed; transposed joined-transposed
  the numbers of a head were taken for [dim, length]. Its rows are tokens: [length, dim]
k-transposed
  K was written as [dim, length]. The product Q @ K.T reads K by rows, so that it is stored as Q and
  V are
heads-before-batch: heads-before-batch; joined-heads-before-batch; heads-before-batch
    joined-heads-before-batch
  the order [heads, batch, length, dim] was taken. Batch is outermost
first-sequence-only
  only batch 0 was written. All of the batch: a loop is missing
batch-written-over
  all sequences were written to the place of the first. Those of batch b begin b * heads * length *
  dim numbers further
length-for-heads
  a sequence was taken to have `length` heads: (b * heads + h) * length + t
heads-overlap
  head h begins h rows after head 0. A head has `length` rows: h * length * dim
loops-exchanged: split-dim-for-heads; join-dim-for-heads; split-dim-for-heads join-dim-for-heads
  h was counted up to dim and d up to heads. The other way round
loops-exchanged: split-length-for-heads; join-length-for-heads; split-length-for-heads
    join-length-for-heads
  h was counted up to length and t up to heads. The other way round
$order = {,tokens-outside}
a-loop-too-long: {split,join}-{b,h,t,d}=1 $order; split-b=1 join-b=1 $order;
    split-h=1 join-h=1 $order; split-t=1 join-t=1 $order; split-d=1 join-d=1 $order
  a loop runs once too often and takes numbers of the next head, token or sequence: <, not <=
a-loop-too-short: {split,join}-{b,h,t,d}=-1 $order; split-b=-1 join-b=-1 $order;
    split-h=-1 join-h=-1 $order; split-t=-1 join-t=-1 $order; split-d=-1 join-d=-1 $order
  a loop ends one too early, so that some numbers are -1, as at the beginning
something-not-written: k-forgotten; v-forgotten; nothing-joined
  a whole tensor is -1, as at the beginning: nothing was written to it
head-by-head
  Q, K and V of a head were looked for side by side. A row has all of Q, then all of K, then all of
  V
channel-by-channel
  Q, K and V of a channel were looked for side by side. A row has all of Q, then all of K, then all
  of V
one-below-the-other
  Q, K and V were looked for in rows below each other. They are side by side in each row
three-tensors-in-a-row
  Q, K and V were copied as if each were one piece in its own order. The product has rows of tokens,
  with all three next to each other in each row
rows-of-one-tensor
  rows were taken to be `channels` apart. A row of the product has 3 * channels numbers
one-head-apart
  K was looked for dim numbers after Q. Between them are all heads of Q: channels
one-number-apart
  K was looked for one number after Q. Between them are all channels of Q
tensors-exchanged: qvk; kqv; vqk; kvq; vkq
  Q, K and V are not in this order. From the left: Q, K, V
all-are-q
  K and V are copies of Q. Theirs begin channels and 2 * channels further
q-scaled
  Q was divided by the root of dim. That is right in its place, but here nothing is computed,
  because attention does it
rows-of-the-product
  rows of `joined` were taken to be 3 * channels apart. They have channels numbers
added-for-written
  O was added to the old content of `joined`. It must be written there
)");

// A number whose digits say where it belongs.
static float number(int tensor, int64_t b, int64_t h, int64_t t, int64_t d) {
  return static_cast<float>(tensor * 10000 + b * 1000 + h * 100 + t * 10 + d);
}

static int64_t place(const Shape& s, int64_t b, int64_t h, int64_t t, int64_t d) {
  return ((b * s.heads + h) * s.length + t) * s.dim + d;
}

template <class Do>
static void for_all(const Shape& s, Do what) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t t = 0; t < s.length; ++t)
        for (int64_t d = 0; d < s.dim; ++d) what(b, h, t, d);
}

static Numbers all_of(const Memory& memory) {
  Numbers result;
  for (int64_t i = 0; i < memory.size(); ++i) result.push_back(memory[i]);
  return result;
}

struct Result {
  Numbers Q, K, V, joined;
  bool left;
};

template <class Any>
static Result run(const Any& way, const Shape& s) {
  const int64_t size = s.batch * s.channels() * s.length;
  Memory QKV(3 * size), Q(size), K(size), V(size), O(size), joined(size);
  for_all(s, [&](int64_t b, int64_t h, int64_t t, int64_t d) {
    const int64_t token = b * s.length + t, channel = h * s.dim + d;
    for (int which = 0; which < 3; ++which)
      QKV[(token * 3 + which) * s.channels() + channel] = number(which + 1, b, h, t, d);
    O[place(s, b, h, t, d)] = number(4, b, h, t, d);
  });
  way.split_heads(QKV, s, Q, K, V);
  way.join_heads(O, s, joined);
  bool left = false;
  for (const Memory* one : {&QKV, &Q, &K, &V, &O, &joined}) left = left || one->left();
  return {all_of(Q), all_of(K), all_of(V), all_of(joined), left};
}

static void check_shape(const Shape& s) {
  const Result got = run(Answer{}, s), right = run(Way{}, s);
  std::vector<Result> results;
  for (const exercise::Row& mistake : MISTAKES) results.push_back(run(Way{mistake.changes}, s));
  const auto check_tensor = [&](const char* name, int64_t columns, Numbers Result::*tensor) {
    std::vector<exercise::Mistake> mistakes;
    for (const exercise::Row& mistake : MISTAKES)
      mistakes.push_back({mistake.name, results[mistakes.size()].*tensor, mistake.explanation});
    exercise::check_output({name, static_cast<int>(columns), 0}, got.*tensor, right.*tensor,
                           mistakes);
  };
  check_tensor("Q", s.dim, &Result::Q);
  check_tensor("K", s.dim, &Result::K);
  check_tensor("V", s.dim, &Result::V);
  check_tensor("joined", s.channels(), &Result::joined);
  const auto shown = [](bool left) {
    return left ? "something outside of a tensor was read or written" : "nothing outside";
  };
  std::vector<exercise::Look> looks;
  for (const exercise::Row& mistake : MISTAKES)
    looks.push_back({mistake.name, shown(results[looks.size()].left), mistake.explanation});
  exercise::check_shown(!got.left, shown(got.left), shown(got.left), looks);
}

TEST_CASE("one token of one head") { check_shape({1, 1, 1, 4}); }
TEST_CASE("one head") { check_shape({1, 1, 3, 4}); }
TEST_CASE("the README's: 2 heads, 2 tokens, 2 numbers") { check_shape({1, 2, 2, 2}); }
TEST_CASE("3 heads, 5 tokens") { check_shape({1, 3, 5, 2}); }
TEST_CASE("a batch of 2") { check_shape({2, 3, 4, 5}); }
TEST_CASE("a batch of 3, 4 heads, one token each") { check_shape({3, 4, 1, 3}); }
TEST_CASE("heads of one number") { check_shape({2, 5, 3, 1}); }

// The answer that this test expects: each number is where its digits say.
TEST_CASE("the digits themselves") {
  const Shape s{2, 3, 4, 5};
  const Result right = run(Way{}, s);
  int64_t i = 0;
  for_all(s, [&](int64_t b, int64_t h, int64_t t, int64_t d) {
    CHECK(right.K[i++] == number(2, b, h, t, d));
    CHECK(right.joined[(b * s.length + t) * s.channels() + h * s.dim + d] == number(4, b, h, t, d));
  });
}
