#include <doctest/doctest.h>

#include <shared_heads.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

struct Sizes {
  int len, heads, kv_heads, dim;
};

// fused_qkv as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  int64_t element = ELEMENT;
  enum Row { kAll, kOwn, kOwnOfKV, kDim, kThreeParts, kWithoutV } row = kAll;
  enum Start { kBehindQ, kBehindKvHeads, kZero, kThirds, kVBeforeK } start = kBehindQ;
  bool heads_before_rows = false, batch_of_one = false;
  enum Group { kHeadsPerKv, kKvHeads, kUpsideDown } group = kHeadsPerKv;
  bool thirty_two_bits = false;
};

static Params fused_as(const Sizes& s, const Way& way) {
  const int64_t dim = s.dim * way.element;
  const auto tensor = [&](int64_t before, int64_t own) {
    const int64_t all = way.row == Way::kAll       ? s.heads + 2 * s.kv_heads
                        : way.row == Way::kOwn     ? own
                        : way.row == Way::kOwnOfKV ? (before > 0 ? own : s.heads + 2 * s.kv_heads)
                        : way.row == Way::kDim     ? 1
                        : way.row == Way::kThreeParts ? 3 * s.heads
                                                      : s.heads + s.kv_heads;
    Tensor t{before * dim, s.len * all * dim, dim, all * dim};
    if (way.row == Way::kDim || way.row == Way::kOwnOfKV)  // the row alone
      t.batch = s.len * (s.heads + 2 * s.kv_heads) * dim;
    if (way.heads_before_rows) t.head = s.len * dim, t.row = dim, t.start *= s.len;
    if (way.batch_of_one) t.batch = s.len * own * dim;
    if (way.thirty_two_bits) t.batch = static_cast<int32_t>(t.batch);
    return t;
  };
  int64_t k = way.start == Way::kBehindKvHeads ? s.kv_heads : way.start == Way::kZero ? 0 : s.heads;
  int64_t v = way.start == Way::kThirds ? 2 * s.heads
              : way.start == Way::kZero ? 0
                                        : k + s.kv_heads;
  if (way.start == Way::kVBeforeK) std::swap(k, v);
  return {tensor(0, s.heads), tensor(k, s.kv_heads), tensor(v, s.kv_heads), s.heads,
          way.group == Way::kHeadsPerKv ? s.heads / s.kv_heads
          : way.group == Way::kKvHeads  ? s.kv_heads
                                        : s.kv_heads / s.heads};
}

static Numbers fields(const Params& p) {
  Numbers result;
  for (const Tensor& t : {p.Q, p.K, p.V})
    for (const int64_t bytes : {t.start, t.batch, t.head, t.row})
      result.push_back(static_cast<double>(bytes));
  result.push_back(p.heads);
  result.push_back(p.group);
  return result;
}

static void check_fused(const Sizes& s) {
  const Params got = fused_qkv(s.len, s.heads, s.kv_heads, s.dim);
  std::vector<exercise::Mistake> mistakes;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    mistakes.push_back({name, fields(fused_as(s, way)), explanation});
  };
  mistake("elements-for-bytes", "the strides count numbers; they count bytes: times ELEMENT",
          {.element = 1});
  mistake("row-of-one-head",
          "the next row was taken to be dim numbers further; all heads of Q, K and V lie between",
          {.row = Way::kDim});
  const char* const own =
      "the next row is a whole fused row further, also where only Q, K or V is wanted: heads + 2 "
      "kv_heads times dim";
  mistake("rows-of-one-tensor", own, {.row = Way::kOwn});
  mistake("rows-of-one-tensor", own, {.row = Way::kOwnOfKV});
  mistake("rows-of-one-tensor", own, {.row = Way::kWithoutV});
  mistake("three-equal-parts",
          "Q, K and V were taken to be as large as each other; K and V have kv_heads",
          {.row = Way::kThreeParts, .start = Way::kThirds});
  const char* const thirds =
      "V begins behind the kv_heads heads of K, not as far behind it as K behind Q";
  mistake("three-equal-parts", thirds, {.start = Way::kThirds});
  mistake("k-behind-kv-heads", "K begins behind all heads of Q, and there are `heads` of those",
          {.start = Way::kBehindKvHeads});
  mistake("v-before-k", "V begins before K; behind Q all heads of K come first",
          {.start = Way::kVBeforeK});
  mistake("all-begin-at-zero",
          "Q, K and V all begin at byte 0; K begins behind the heads of Q, V behind those of K",
          {.start = Way::kZero});
  mistake("heads-before-rows",
          "this is [batch, heads, len, dim]; in a fused tensor the heads of one row lie together",
          {.heads_before_rows = true});
  mistake("batch-of-one-tensor",
          "the next batch begins behind all of this one's rows, and these hold Q, K and V",
          {.batch_of_one = true});
  mistake("group-is-kv-heads",
          "group is how many query heads share a head, heads / kv_heads, not how many there are",
          {.group = Way::kKvHeads});
  mistake("group-upside-down", "group is heads / kv_heads; kv_heads / heads is 0 or 1",
          {.group = Way::kUpsideDown});
  mistake("thirty-two-bits",
          "the bytes of a batch were multiplied as int, and passed 2^31: begin with an int64_t",
          {.thirty_two_bits = true});
  exercise::check_output({"fused_qkv",
                          14,
                          0,
                          {"Q.start", "Q.batch", "Q.head", "Q.row", "K.start", "K.batch", "K.head",
                           "K.row", "V.start", "V.batch", "V.head", "V.row", "heads", "group"}},
                         fields(got), fields(fused_as(s, Way{})), mistakes);
}

// Of every query head rows 0, 1 and 5.
template <class Byte>
static Numbers bytes(int batch, int heads, Byte byte) {
  Numbers result;
  for (int head = 0; head < heads; ++head)
    for (const int row : {0, 1, 5}) result.push_back(static_cast<double>(byte(batch, head, row)));
  return result;
}

static void check_K_row(const Sizes& s, const Params& p, int which) {
  const int kv_heads = s.kv_heads;
  std::vector<exercise::Mistake> mistakes;
  const auto at = [](const Tensor& t, int batch, int head, int row) {
    return t.start + batch * t.batch + head * t.head + row * t.row;
  };
  const auto mistake = [&](const char* name, const char* explanation, auto byte) {
    mistakes.push_back({name, bytes(which, s.heads, byte), explanation});
  };
  const auto of_head = [&](const char* name, const char* explanation, auto map) {
    mistake(name, explanation,
            [=](int batch, int head, int row) { return at(p.K, batch, map(head), row); });
  };
  const auto of_tensor = [&](const char* name, const char* explanation, const Tensor& t) {
    mistake(name, explanation,
            [=](int batch, int head, int row) { return at(t, batch, head / p.group, row); });
  };
  of_head("modulo-head-map",
          "query heads were dealt out in turn, head % kv_heads; those that share a head stand in a "
          "row: head / group",
          [=](int head) { return head % kv_heads; });
  of_head("modulo-group", "head % group is the place in the group; the group is head / group",
          [=](int head) { return head % p.group; });
  of_head("divided-by-kv-heads",
          "the head was divided by the number of groups; divide by how many are in one: group",
          [=](int head) { return head / kv_heads; });
  mistake("divided-after-the-stride",
          "head * stride / group is a place between two heads of K; head / group comes first, and "
          "drops what is left over",
          [=](int batch, int head, int row) {
            return p.K.start + batch * p.K.batch + head * p.K.head / p.group + row * p.K.row;
          });
  mistake("divided-after-the-stride",
          "the stride was divided by group; it is the head that is divided, and what is left over "
          "is dropped",
          [=](int batch, int head, int row) {
            return p.K.start + batch * p.K.batch + head * (p.K.head / p.group) + row * p.K.row;
          });
  of_head("head-not-mapped",
          "the query head was taken as the head of K; several query heads share one: head / group",
          [](int head) { return head; });
  of_head("first-of-the-group",
          "this is the group's first query head; the head of K is head / group",
          [=](int head) { return head / p.group * p.group; });
  const char* const of_q = "a stride of Q was used for K; K has its own";
  of_tensor("strides-of-q", of_q, {p.K.start, p.Q.batch, p.Q.head, p.Q.row});
  of_tensor("strides-of-q", of_q, {p.K.start, p.Q.batch, p.K.head, p.K.row});
  of_tensor("strides-of-q", of_q, {p.K.start, p.K.batch, p.Q.head, p.K.row});
  of_tensor("strides-of-q", of_q, {p.K.start, p.K.batch, p.K.head, p.Q.row});
  of_tensor("strides-of-q", of_q, p.Q);
  of_tensor("start-forgotten", "K does not begin at byte 0: add its start",
            {0, p.K.batch, p.K.head, p.K.row});
  of_tensor("start-of-q", "the start is Q's", {p.Q.start, p.K.batch, p.K.head, p.K.row});
  of_tensor("row-of-v", "this is where V lies", p.V);
  of_tensor("head-and-row-exchanged",
            "the head was multiplied by the row's stride, the row by the head's",
            {p.K.start, p.K.batch, p.K.row, p.K.head});
  const char* const twice =
      "the strides are in bytes already, and were multiplied by ELEMENT again";
  of_tensor("bytes-scaled-again", twice,
            {p.K.start, p.K.batch * ELEMENT, p.K.head * ELEMENT, p.K.row * ELEMENT});
  of_tensor("bytes-scaled-again", twice,
            {p.K.start * ELEMENT, p.K.batch * ELEMENT, p.K.head * ELEMENT, p.K.row * ELEMENT});
  of_tensor("rows-taken-as-contiguous",
            "the next row was taken to lie dim numbers further; its stride says where",
            {p.K.start, p.K.batch, p.K.head, s.dim * ELEMENT});
  mistake("offset-in-32-bits",
          "the strides are int64_t, and their sum went through an int: past 2^31 bytes it wraps",
          [&](int batch, int head, int row) {
            return p.K.start +
                   static_cast<int32_t>(at(p.K, batch, head / p.group, row) - p.K.start);
          });
  exercise::check_output(
      {"batch " + std::to_string(which) + ", head", 3, 0, {"row 0", "row 1", "row 5"}},
      bytes(which, s.heads,
            [&](int batch, int head, int row) { return K_row(p, batch, head, row); }),
      bytes(which, s.heads,
            [&](int batch, int head, int row) { return at(p.K, batch, head / p.group, row); }),
      mistakes);
}

static void check_K_row(const Sizes& s, const Params& p) {
  for (const int batch : {0, 1}) check_K_row(s, p, batch);
}

// [batch, heads, len, dim] or [batch, len, heads, dim], whole: Q, which has three rows more, then
// K, then V, of two batches each.
static Params whole(const Sizes& s, bool rows_first) {
  int64_t start = 512;
  const auto tensor = [&](int64_t len, int64_t heads) {
    const int64_t dim = s.dim * ELEMENT, batch = len * heads * dim, here = start;
    start += 2 * batch;
    return rows_first ? Tensor{here, batch, dim, heads * dim} : Tensor{here, batch, len * dim, dim};
  };
  const Tensor Q = tensor(s.len + 3, s.heads), K = tensor(s.len, s.kv_heads);
  return {Q, K, tensor(s.len, s.kv_heads), s.heads, s.heads / s.kv_heads};
}

TEST_CASE("K_row: [batch, heads, len, dim], each head its own K") {
  check_K_row({10, 3, 3, 16}, whole({10, 3, 3, 16}, false));
}
TEST_CASE("K_row: [batch, heads, len, dim], six query heads on two") {
  check_K_row({10, 6, 2, 16}, whole({10, 6, 2, 16}, false));
}
TEST_CASE("K_row: [batch, len, heads, dim], six query heads on two") {
  check_K_row({10, 6, 2, 16}, whole({10, 6, 2, 16}, true));
}
TEST_CASE("K_row: [batch, len, heads, dim], eight query heads on one") {
  check_K_row({7, 8, 1, 24}, whole({7, 8, 1, 24}, true));
}
TEST_CASE("K_row: K as a slice of a fused tensor") {
  check_K_row({9, 8, 2, 64}, fused_as({9, 8, 2, 64}, Way{}));
}
TEST_CASE("fused_qkv: len 9, heads 3, kv_heads 3, dim 64") { check_fused({9, 3, 3, 64}); }
TEST_CASE("fused_qkv: len 9, heads 8, kv_heads 2, dim 64") { check_fused({9, 8, 2, 64}); }
TEST_CASE("fused_qkv: len 524288, heads 32, kv_heads 8, dim 128") {
  check_fused({524288, 32, 8, 128});
  check_K_row({524288, 32, 8, 128}, fused_as({524288, 32, 8, 128}, Way{}));
}
