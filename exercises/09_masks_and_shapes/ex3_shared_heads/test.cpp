#include <doctest/doctest.h>

#include <shared_heads.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Changes;
using exercise::Numbers;

struct Sizes {
  int len, heads, kv_heads, dim;
};

// The right fused_qkv, and each mistake as a change to it.
static Params fused_as(const Sizes& s, const Changes& is) {
  const int64_t dim = s.dim * (is("elements-for-bytes") ? 1 : ELEMENT);
  const auto tensor = [&](int64_t before, int64_t own) {
    const int64_t all = is("own") || (is("own-of-kv") && before > 0) ? own
                        : is("row-of-one-head")                      ? 1
                        : is("three-parts")                          ? 3 * s.heads
                        : is("without-v")                            ? s.heads + s.kv_heads
                                                                     : s.heads + 2 * s.kv_heads;
    Tensor t{before * dim, s.len * all * dim, dim, all * dim};
    if (is("row-of-one-head") || is("own-of-kv"))  // the row alone
      t.batch = s.len * (s.heads + 2 * s.kv_heads) * dim;
    if (is("heads-before-rows")) t.head = s.len * dim, t.row = dim, t.start *= s.len;
    if (is("batch-of-one-tensor")) t.batch = s.len * own * dim;
    if (is("thirty-two-bits")) t.batch = static_cast<int32_t>(t.batch);
    return t;
  };
  int64_t k = is("k-behind-kv-heads") ? s.kv_heads : is("all-begin-at-zero") ? 0 : s.heads;
  int64_t v = is("thirds") ? 2 * s.heads : is("all-begin-at-zero") ? 0 : k + s.kv_heads;
  if (is("v-before-k")) std::swap(k, v);
  return {tensor(0, s.heads), tensor(k, s.kv_heads), tensor(v, s.kv_heads), s.heads,
          is("group-is-kv-heads")   ? s.kv_heads
          : is("group-upside-down") ? s.kv_heads / s.heads
                                    : s.heads / s.kv_heads};
}

static const exercise::Table FUSED_MISTAKES(R"(
elements-for-bytes
  the strides count numbers. They have to count bytes: times ELEMENT
row-of-one-head
  the next row was taken to be dim numbers further. All heads of Q, K and V lie between
rows-of-one-tensor: own; own-of-kv; without-v
  the next row is a whole fused row further, even where only Q, K or V is used: heads + 2 kv_heads
  times dim
three-equal-parts: three-parts thirds
  Q, K and V were taken to be as large as each other. K and V have kv_heads
three-equal-parts: thirds
  V begins after the kv_heads heads of K. The distance from K to V is not the distance from Q to K
k-behind-kv-heads
  K begins after all heads of Q, and there are `heads` of them
v-before-k
  V was placed before K. After Q come all heads of K, then those of V
all-begin-at-zero
  Q, K and V all begin at byte 0. K begins after the heads of Q, and V after those of K
heads-before-rows
  this is [batch, heads, len, dim]. In a fused tensor the heads of one row are next to each other
batch-of-one-tensor
  the next batch begins after all rows of this batch, and these rows hold Q, K and V
group-is-kv-heads
  group is how many query heads share a head, heads / kv_heads, not how many there are
group-upside-down
  group is heads / kv_heads. kv_heads / heads is 0 or 1
thirty-two-bits
  the bytes of a batch were multiplied as int, and passed 2^31: begin with an int64_t
)");

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
  const auto with = [&](const Changes& is) { return fields(fused_as(s, is)); };
  exercise::check_output({"fused_qkv",
                          14,
                          0,
                          {"Q.start", "Q.batch", "Q.head", "Q.row", "K.start", "K.batch", "K.head",
                           "K.row", "V.start", "V.batch", "V.head", "V.row", "heads", "group"}},
                         fields(fused_qkv(s.len, s.heads, s.kv_heads, s.dim)), with({}),
                         exercise::mistakes(FUSED_MISTAKES, with));
}

// Rows 0, 1 and 5 of every query head.
template <class Byte>
static Numbers bytes(int batch, int heads, Byte byte) {
  Numbers result;
  for (int head = 0; head < heads; ++head)
    for (const int row : {0, 1, 5}) result.push_back(static_cast<double>(byte(batch, head, row)));
  return result;
}

// The right byte of a row of K, and each mistake as a change to it.
static int64_t byte_as(const Changes& is, const Sizes& s, const Params& p, int batch, int head,
                       int row) {
  Tensor t = is("row-of-v") ? p.V : is("all-of-q") ? p.Q : p.K;
  if (is("batch-of-q")) t.batch = p.Q.batch;
  if (is("head-of-q")) t.head = p.Q.head;
  if (is("row-of-q")) t.row = p.Q.row;
  if (is("start-of-q")) t.start = p.Q.start;
  if (is("start-forgotten")) t.start = 0;
  if (is("head-and-row-exchanged")) std::swap(t.head, t.row);
  if (is("scaled")) t.batch *= ELEMENT, t.head *= ELEMENT, t.row *= ELEMENT;
  if (is("start-scaled")) t.start *= ELEMENT;
  if (is("rows-taken-as-contiguous")) t.row = s.dim * ELEMENT;
  const int of_K = is("modulo-head-map")       ? head % s.kv_heads
                   : is("modulo-group")        ? head % p.group
                   : is("divided-by-kv-heads") ? head / s.kv_heads
                   : is("head-not-mapped")     ? head
                   : is("first-of-the-group")  ? head / p.group * p.group
                                               : head / p.group;
  const int64_t to_head = is("product-divided")  ? head * t.head / p.group
                          : is("stride-divided") ? head * (t.head / p.group)
                                                 : of_K * t.head;
  const int64_t offset = batch * t.batch + to_head + row * t.row;
  return t.start + (is("offset-in-32-bits") ? static_cast<int32_t>(offset) : offset);
}

static const exercise::Table ROW_MISTAKES(R"(
modulo-head-map
  query heads were assigned in turn, head % kv_heads. Consecutive heads share a head of K: head /
  group
modulo-group
  head % group is the place in the group. The group is head / group
divided-by-kv-heads
  the head was divided by the number of groups. Divide by how many are in one: group
divided-after-the-stride: product-divided
  head * stride / group is a place between two heads of K. Head / group comes first, and drops what
  is left over
divided-after-the-stride: stride-divided
  the stride was divided by group. Divide the head, and drop the remainder
head-not-mapped
  the query head was taken as the head of K. Several query heads share one: head / group
first-of-the-group
  this is the group's first query head. The head of K is head / group
strides-of-q: batch-of-q head-of-q row-of-q; batch-of-q; head-of-q; row-of-q; all-of-q
  a stride of Q was used for K. K has its own
start-forgotten
  K does not begin at byte 0: add its start
start-of-q
  the start is Q's
row-of-v
  this is the address of V
head-and-row-exchanged
  the head was multiplied by the row's stride, the row by the head's
bytes-scaled-again: scaled {,start-scaled}
  the strides are in bytes already, and were multiplied by ELEMENT again
rows-taken-as-contiguous
  the next row was taken to be dim numbers further. Use its stride
offset-in-32-bits
  the strides are int64_t, and their sum went through an int: past 2^31 bytes it wraps
)");

static void check_K_row(const Sizes& s, const Params& p, int which) {
  const auto with = [&](const Changes& is) {
    return bytes(which, s.heads,
                 [&](int batch, int head, int row) { return byte_as(is, s, p, batch, head, row); });
  };
  const Numbers got = bytes(
      which, s.heads, [&](int batch, int head, int row) { return K_row(p, batch, head, row); });
  exercise::check_output(
      {"batch " + std::to_string(which) + ", head", 3, 0, {"row 0", "row 1", "row 5"}}, got,
      with({}), exercise::mistakes(ROW_MISTAKES, with));
}

static void check_K_row(const Sizes& s, const Params& p) {
  for (const int batch : {0, 1}) check_K_row(s, p, batch);
}

// [batch, heads, len, dim] or [batch, len, heads, dim], whole, for Q, which has three rows more,
// then K, then V, of two batches each.
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
  check_K_row({9, 8, 2, 64}, fused_as({9, 8, 2, 64}, Changes{}));
}
TEST_CASE("fused_qkv: len 9, heads 3, kv_heads 3, dim 64") { check_fused({9, 3, 3, 64}); }
TEST_CASE("fused_qkv: len 9, heads 8, kv_heads 2, dim 64") { check_fused({9, 8, 2, 64}); }
TEST_CASE("fused_qkv: len 524288, heads 32, kv_heads 8, dim 128") {
  check_fused({524288, 32, 8, 128});
  check_K_row({524288, 32, 8, 128}, fused_as({524288, 32, 8, 128}, Changes{}));
}
