#include <doctest/doctest.h>

#include <cmath>
#include <heads.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The functions as people write them: right as they stand here, each mistake is a change to them.
struct Way {
  enum Product {  // where a number is in QKV
    kSideBySide,
    kOfAHeadTogether,
    kInterleaved,
    kInnermost,
    kBatchForgotten,
    kTokensFirst,
    kNarrow,
    kBlocksOfRows,
    kHeadForgotten,
    kHeadByOne,
    kDimApart,
    kOneNumberApart,
    kThreeTensors
  } product = kSideBySide;
  enum Tensors { kQKV, kQVK, kKQV, kVQK, kKVQ, kVKQ, kQQQ } tensors = kQKV;
  enum Tensor {  // where it is in Q, K, V
    kHeadsOutside,
    kNotMoved,
    kTransposed,
    kOnlyKTransposed,
    kWithoutBatch,
    kHeadsBeforeBatch,
    kHeadBySize,
    kHeadsOverlap
  } tensor = kHeadsOutside;
  enum Joined {  // where a number of O goes
    kByRow,
    kJoinedNotMoved,
    kJoinedInterleaved,
    kJoinedBatchForgotten,
    kJoinedTokensFirst,
    kWide,
    kJoinedHeadForgotten,
    kJoinedHeadByOne,
    kJoinedTransposed,
    kJoinedHeadsBeforeBatch
  } to = kByRow;
  bool first_batch_only = false, scaled = false, added = false;
  bool k_forgotten = false, v_forgotten = false, nothing_joined = false;
  // The loops: how many more or less they count in split_heads and in join_heads.
  struct Loops {
    int b = 0, h = 0, t = 0, d = 0;
    bool tokens_outside = false, exchanged = false, heads_for_tokens = false;
  } loops = {}, loops_of_join = {};

  template <class Do>
  void for_all(const Shape& s, const Loops& more, Do what) const {
    const int64_t B = (first_batch_only ? 1 : s.batch) + more.b;
    const int64_t T = (more.heads_for_tokens ? s.heads : s.length) + more.t;
    const int64_t H = (more.exchanged          ? s.dim
                       : more.heads_for_tokens ? s.length
                                               : s.heads) +
                      more.h;
    const int64_t D = (more.exchanged ? s.heads : s.dim) + more.d;
    for (int64_t b = 0; b < B; ++b)
      for (int64_t i = 0; i < H * T; ++i)
        for (int64_t d = 0; d < D; ++d)
          if (more.tokens_outside)
            what(b, i % H, i / H, d);
          else
            what(b, i / T, i % T, d);
  }

  void split_heads(const Memory& QKV, const Shape& s, Memory& Q, Memory& K, Memory& V) const {
    static constexpr int ORDER[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1},
                                       {1, 2, 0}, {2, 1, 0}, {0, 0, 0}};
    Memory* const out[] = {&Q, &K, &V};
    const int64_t B = s.batch, H = s.heads, T = s.length, D = s.dim, C = H * D;
    for_all(s, loops, [&](int64_t b, int64_t h, int64_t t, int64_t d) {
      for (int which = 0; which < 3; ++which) {
        if ((k_forgotten && which == 1) || (v_forgotten && which == 2)) continue;
        const int64_t part = ORDER[tensors][which], channel = h * D + d;
        const int64_t row = product == kBatchForgotten ? t
                            : product == kTokensFirst  ? t * B + b
                                                       : b * T + t;
        const int64_t column = product == kOfAHeadTogether  ? h * 3 * D + part * D + d
                               : product == kInterleaved    ? part * C + d * H + h
                               : product == kInnermost      ? channel * 3 + part
                               : product == kHeadForgotten  ? part * C + d
                               : product == kHeadByOne      ? part * C + h + d
                               : product == kDimApart       ? part * D + channel
                               : product == kOneNumberApart ? part + channel
                                                            : part * C + channel;
        const bool transposed = tensor == kTransposed || (tensor == kOnlyKTransposed && which == 1);
        const int64_t at = tensor == kNotMoved           ? ((b * T + t) * H + h) * D + d
                           : transposed                  ? ((b * H + h) * D + d) * T + t
                           : tensor == kWithoutBatch     ? (h * T + t) * D + d
                           : tensor == kHeadsBeforeBatch ? ((h * B + b) * T + t) * D + d
                           : tensor == kHeadsOverlap     ? b * C * T + h * D + t * D + d
                           : tensor == kHeadBySize       ? ((b * T + h) * T + t) * D + d
                                                         : ((b * H + h) * T + t) * D + d;
        const int64_t from = product == kNarrow         ? row * C + column
                             : product == kBlocksOfRows ? (part * B * T + row) * C + channel
                             : product == kThreeTensors ? part * B * T * C + at
                                                        : row * 3 * C + column;
        const float scale = scaled && which == 0 ? 1 / std::sqrt(static_cast<float>(D)) : 1;
        (*out[which])[at] = QKV[from] * scale;
      }
    });
  }

  void join_heads(const Memory& O, const Shape& s, Memory& joined) const {
    const int64_t B = s.batch, H = s.heads, T = s.length, D = s.dim, C = H * D;
    if (nothing_joined) return;
    for_all(s, loops_of_join, [&](int64_t b, int64_t h, int64_t t, int64_t d) {
      const int64_t from = to == kJoinedTransposed         ? ((b * H + h) * D + d) * T + t
                           : to == kJoinedHeadsBeforeBatch ? ((h * B + b) * T + t) * D + d
                                                           : ((b * H + h) * T + t) * D + d;
      const int64_t row = to == kJoinedBatchForgotten ? t
                          : to == kJoinedTokensFirst  ? t * B + b
                                                      : b * T + t;
      const int64_t column = to == kJoinedInterleaved     ? d * H + h
                             : to == kJoinedHeadForgotten ? d
                             : to == kJoinedHeadByOne     ? h + d
                                                          : h * D + d;
      const int64_t at = to == kJoinedNotMoved ? from
                         : to == kWide         ? row * 3 * C + column
                                               : row * C + column;
      if (added)
        joined[at] += O[from];
      else
        joined[at] = O[from];
    });
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  void split_heads(const Memory& QKV, const Shape& s, Memory& Q, Memory& K, Memory& V) const {
    ::split_heads(QKV, s, Q, K, V);
  }
  void join_heads(const Memory& O, const Shape& s, Memory& joined) const {
    ::join_heads(O, s, joined);
  }
};

using Wrong = exercise::Wrong<Way>;

static std::vector<Way> loops_off_by(int more) {
  std::vector<Way> all;
  for (const bool outside : {false, true})
    for (const Way::Loops& one :
         {Way::Loops{more, 0, 0, 0, outside}, Way::Loops{0, more, 0, 0, outside},
          Way::Loops{0, 0, more, 0, outside}, Way::Loops{0, 0, 0, more, outside}}) {
      all.push_back({.loops = one});
      all.push_back({.loops_of_join = one});
      all.push_back({.loops = one, .loops_of_join = one});
    }
  return all;
}

static const std::vector<Wrong>& wrong_ways() {
  using W = Way;
  static const std::vector<Wrong> wrong = {
      {"heads-interleaved",
       "number d of head h was taken for channel d * heads + h; a head's numbers lie side by side: "
       "h * dim + d",
       {{.product = W::kInterleaved},
        {.to = W::kJoinedInterleaved},
        {.product = W::kInterleaved, .to = W::kJoinedInterleaved}}},
      {"length-and-heads-not-exchanged",
       "the numbers kept the order [batch, length, heads, dim]; a view moves nothing, and here "
       "length and heads have to change places",
       {{.tensor = W::kNotMoved},
        {.to = W::kJoinedNotMoved},
        {.tensor = W::kNotMoved, .to = W::kJoinedNotMoved}}},
      {"batch-forgotten",
       "the row is t for every sequence; those of sequence b begin at b * length",
       {{.product = W::kBatchForgotten},
        {.to = W::kJoinedBatchForgotten},
        {.product = W::kBatchForgotten, .to = W::kJoinedBatchForgotten}}},
      {"tokens-before-batch",
       "the row is t * batch + b; the tokens of a sequence are in rows one after the other: b * "
       "length + t",
       {{.product = W::kTokensFirst},
        {.to = W::kJoinedTokensFirst},
        {.product = W::kTokensFirst, .to = W::kJoinedTokensFirst}}},
      {"head-forgotten",
       "the column does not depend on h: all heads are head 0, or all are written over it; h * dim "
       "+ d",
       {{.product = W::kHeadForgotten},
        {.to = W::kJoinedHeadForgotten},
        {.product = W::kHeadForgotten, .to = W::kJoinedHeadForgotten}}},
      {"heads-one-number-apart",
       "head h begins at channel h; heads are dim numbers apart: h * dim",
       {{.product = W::kHeadByOne},
        {.to = W::kJoinedHeadByOne},
        {.product = W::kHeadByOne, .to = W::kJoinedHeadByOne}}},
      {"head-transposed",
       "the numbers of a head were taken for [dim, length]; its rows are tokens: [length, dim]",
       {{.tensor = W::kTransposed},
        {.to = W::kJoinedTransposed},
        {.tensor = W::kTransposed, .to = W::kJoinedTransposed}}},
      {"k-transposed",
       "K was written as [dim, length]; the product Q @ K.T reads K by rows, so that it is stored "
       "as Q and V are",
       {{.tensor = W::kOnlyKTransposed}}},
      {"heads-before-batch",
       "the order [heads, batch, length, dim] was taken; batch is outermost",
       {{.tensor = W::kHeadsBeforeBatch},
        {.to = W::kJoinedHeadsBeforeBatch},
        {.tensor = W::kHeadsBeforeBatch, .to = W::kJoinedHeadsBeforeBatch}}},
      {"first-sequence-only",
       "only batch 0 was written; all of the batch: a loop is missing",
       {{.first_batch_only = true}}},
      {"batch-written-over",
       "all sequences were written to the place of the first; those of batch b begin b * heads * "
       "length * dim numbers further",
       {{.tensor = W::kWithoutBatch}}},
      {"length-for-heads",
       "a sequence was taken to have `length` heads: (b * heads + h) * length + t",
       {{.tensor = W::kHeadBySize}}},
      {"heads-overlap",
       "head h begins h rows after head 0; a head has `length` rows: h * length * dim",
       {{.tensor = W::kHeadsOverlap}}},
      {"loops-exchanged",
       "h was counted up to dim and d up to heads; the other way round",
       {{.loops = {.exchanged = true}},
        {.loops_of_join = {.exchanged = true}},
        {.loops = {.exchanged = true}, .loops_of_join = {.exchanged = true}}}},
      {"loops-exchanged",
       "h was counted up to length and t up to heads; the other way round",
       {{.loops = {.heads_for_tokens = true}},
        {.loops_of_join = {.heads_for_tokens = true}},
        {.loops = {.heads_for_tokens = true}, .loops_of_join = {.heads_for_tokens = true}}}},
      {"a-loop-too-long",
       "a loop runs once too often and takes numbers of the next head, token or sequence: <, not "
       "<=",
       loops_off_by(1)},
      {"a-loop-too-short",
       "a loop ends one too early, so that some numbers are -1, as at the beginning",
       loops_off_by(-1)},
      {"something-not-written",
       "a whole tensor is -1, as at the beginning: nothing was written to it",
       {{.k_forgotten = true}, {.v_forgotten = true}, {.nothing_joined = true}}},
      {"head-by-head",
       "Q, K and V of a head were looked for side by side; a row has all of Q, then all of K, then "
       "all of V",
       {{.product = W::kOfAHeadTogether}}},
      {"channel-by-channel",
       "Q, K and V of a channel were looked for side by side; a row has all of Q, then all of K, "
       "then all of V",
       {{.product = W::kInnermost}}},
      {"one-below-the-other",
       "Q, K and V were looked for in rows below each other; they are side by side in each row",
       {{.product = W::kBlocksOfRows}}},
      {"three-tensors-in-a-row",
       "Q, K and V were copied as if each lay in one piece and in its order; the product has rows "
       "of tokens, with all three side by side in each",
       {{.product = W::kThreeTensors}}},
      {"rows-of-one-tensor",
       "rows were taken to be `channels` apart; a row of the product has 3 * channels numbers",
       {{.product = W::kNarrow}}},
      {"one-head-apart",
       "K was looked for dim numbers behind Q; between them lie all heads of Q: channels",
       {{.product = W::kDimApart}}},
      {"one-number-apart",
       "K was looked for one number behind Q; between them lie all channels of Q",
       {{.product = W::kOneNumberApart}}},
      {"tensors-exchanged",
       "Q, K and V are not in this order; from the left: Q, K, V",
       {{.tensors = W::kQVK},
        {.tensors = W::kKQV},
        {.tensors = W::kVQK},
        {.tensors = W::kKVQ},
        {.tensors = W::kVKQ}}},
      {"all-are-q",
       "K and V are copies of Q; theirs begin channels and 2 * channels further",
       {{.tensors = W::kQQQ}}},
      {"q-scaled",
       "Q was divided by the root of dim; right in its place, but here nothing is computed: "
       "attention does it",
       {{.scaled = true}}},
      {"rows-of-the-product",
       "rows of `joined` were taken to be 3 * channels apart; they have channels numbers",
       {{.to = W::kWide}}},
      {"added-for-written",
       "O was added to what stood in `joined`; it is written there",
       {{.added = true}}},
  };
  return wrong;
}

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
  std::vector<const Wrong*> of;
  for (const Wrong& wrong : wrong_ways())
    for (const Way& way : wrong.ways) {
      results.push_back(run(way, s));
      of.push_back(&wrong);
    }
  const auto check_tensor = [&](const char* name, int64_t columns, Numbers Result::*tensor) {
    std::vector<exercise::Mistake> mistakes;
    for (size_t i = 0; i < results.size(); ++i)
      mistakes.push_back({of[i]->name, results[i].*tensor, of[i]->explanation});
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
  for (size_t i = 0; i < results.size(); ++i)
    looks.push_back({of[i]->name, shown(results[i].left), of[i]->explanation});
  exercise::check_shown(!got.left, shown(got.left), shown(got.left), looks);
}

TEST_CASE("one token of one head") { check_shape({1, 1, 1, 4}); }
TEST_CASE("one head") { check_shape({1, 1, 3, 4}); }
TEST_CASE("the README's: 2 heads, 2 tokens, 2 numbers") { check_shape({1, 2, 2, 2}); }
TEST_CASE("3 heads, 5 tokens") { check_shape({1, 3, 5, 2}); }
TEST_CASE("a batch of 2") { check_shape({2, 3, 4, 5}); }
TEST_CASE("a batch of 3, 4 heads, one token each") { check_shape({3, 4, 1, 3}); }
TEST_CASE("heads of one number") { check_shape({2, 5, 3, 1}); }

// What this test takes for right: each number is where its digits say.
TEST_CASE("the digits themselves") {
  const Shape s{2, 3, 4, 5};
  const Result right = run(Way{}, s);
  int64_t i = 0;
  for_all(s, [&](int64_t b, int64_t h, int64_t t, int64_t d) {
    CHECK(right.K[i++] == number(2, b, h, t, d));
    CHECK(right.joined[(b * s.length + t) * s.channels() + h * s.dim + d] == number(4, b, h, t, d));
  });
}
