#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>
#include <which_keys.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

struct Sizes {
  int len_q, len_kv, left, right;
};

// The limits as people write them: right as it stands here, and each mistake is a change to it.
struct Way {
  enum Diagonal {
    kRight,
    kNone,
    kReversed,
    kNotNegative,
    kPositive,
    kClamped,  // the place i + diagonal, not the diagonal
  } first_diagonal = kRight,
    end_diagonal = kRight;
  int left = 0, right = 0;        // added to the sides that have a limit
  int first_shift = 0, last = 0;  // added to first_key and to end_key
  bool sides_exchanged = false, one_key_at_least = false;
  bool first_clamped = true, end_clamped = true, end_by_len_q = false;
  bool far_free = false;  // not clamped either where there is no limit
  enum Unlimited { kKnown, kMinusOne, kZero, kZeroToo, kLength } unlimited = kKnown;
};

struct Keys {
  int first, end;
};

static Keys keys_of(const Sizes& s, int query, const Way& way) {
  const auto stands_at = [&](Way::Diagonal diagonal) {
    if (diagonal == Way::kClamped) return std::max(query + s.len_kv - s.len_q, 0);
    return query + (diagonal == Way::kNone          ? 0
                    : diagonal == Way::kReversed    ? s.len_q - s.len_kv
                    : diagonal == Way::kNotNegative ? std::max(s.len_kv - s.len_q, 0)
                    : diagonal == Way::kPositive    ? std::abs(s.len_kv - s.len_q)

                                                 : s.len_kv - s.len_q);
  };
  const auto side = [&](int limit, int added) {
    if (way.unlimited == Way::kZeroToo && limit <= 0) return 1 << 29;
    if (limit >= 0) return limit + added;
    if (way.unlimited == Way::kLength) return s.len_kv;
    return way.unlimited == Way::kKnown ? 1 << 29 : way.unlimited == Way::kZero ? 0 : -1;
  };
  const int left = way.sides_exchanged ? s.right : s.left;
  const int right = way.sides_exchanged ? s.left : s.right;
  const int first = stands_at(way.first_diagonal) - side(left, way.left) + way.first_shift;
  const int end = stands_at(way.end_diagonal) + side(right, way.right) + 1 + way.last;
  const int last = way.end_by_len_q ? s.len_q : s.len_kv;
  const bool first_free = !way.first_clamped && (left >= 0 || way.far_free);
  const bool end_free = !way.end_clamped && (right >= 0 || way.far_free);
  Keys keys{first_free ? first : std::max(first, 0), end_free ? end : std::min(end, last)};
  if (way.one_key_at_least) keys.end = std::max(keys.end, keys.first + 1);
  return keys;
}

// Farther than any key: how far does not matter.
static double shown(int key) {
  const double infinity = std::numeric_limits<double>::infinity();
  return key < -100 ? -infinity : key > 100 ? infinity : key;
}

// Of each query its two limits; 0 and 0 if it sees nothing.
template <class Of>
static Numbers all_limits(const Sizes& s, Of keys) {
  Numbers result;
  for (int query = 0; query < s.len_q; ++query) {
    const Keys seen = keys(query);
    const bool none = seen.end <= seen.first;
    result.push_back(none ? 0 : shown(seen.first));
    result.push_back(none ? 0 : shown(seen.end));
  }
  return result;
}

static void check_limits(const Sizes& s) {
  const Mask mask = mask_of(s.len_q, s.len_kv, s.left, s.right);
  const auto got = [&](int query) { return Keys{mask.first_key(query), mask.end_key(query)}; };
  std::vector<exercise::Mistake> mistakes;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    mistakes.push_back(
        {name, all_limits(s, [&](int query) { return keys_of(s, query, way); }), explanation});
  };
  const char* const top_left =
      "query i stands at key i, as if the first query met the first key; the last one meets the "
      "last key: add diagonal = len_kv - len_q at both ends";
  mistake("top-left-aligned", top_left, {.first_diagonal = Way::kNone, .end_diagonal = Way::kNone});
  mistake("top-left-aligned", top_left, {.first_diagonal = Way::kNone});
  mistake("top-left-aligned", top_left, {.end_diagonal = Way::kNone});
  const char* const reversed =
      "the diagonal is len_q - len_kv; with more keys a query stands further on: len_kv - len_q";
  mistake("diagonal-reversed", reversed,
          {.first_diagonal = Way::kReversed, .end_diagonal = Way::kReversed});
  mistake("diagonal-reversed", reversed, {.first_diagonal = Way::kReversed});
  mistake("diagonal-reversed", reversed, {.end_diagonal = Way::kReversed});
  for (const Way::Diagonal diagonal : {Way::kNotNegative, Way::kPositive}) {
    mistake("diagonal-never-negative",
            "with more queries than keys the diagonal is negative: the first queries stand before "
            "key 0",
            {.first_diagonal = diagonal, .end_diagonal = diagonal});
  }
  mistake("place-never-negative",
          "the place of a query was not allowed below key 0; with more queries than keys the first "
          "queries stand before it, and see `right` keys from there, or none",
          {.first_diagonal = Way::kClamped, .end_diagonal = Way::kClamped});
  mistake("one-key-at-least",
          "a query that sees nothing was given one key; its end is at or before its first key",
          {.one_key_at_least = true});
  mistake("window-too-narrow",
          "`left` keys were counted with the query's own; they are those back from it",
          {.left = -1});
  mistake("window-too-wide", "one key too many back: the first is at query + diagonal - left",
          {.left = 1});
  mistake("end-is-the-last-key", "the end is the last key that is seen; it must be one more: + 1",
          {.last = -1});
  mistake("next-key-seen", "each query sees one key too many ahead: + 1 was added twice",
          {.last = 1});
  for (const bool far_free : {false, true}) {
    mistake("first-not-clamped",
            "the first key is below 0 for the first queries; no such key exists, and -3 / 4 is 0, "
            "not -1: take 0",
            {.first_clamped = false, .far_free = far_free});
    mistake("limits-not-clamped",
            "neither limit is clamped: no key is below 0, and no more than len_kv exist",
            {.first_clamped = false, .end_clamped = false, .far_free = far_free});
    mistake("end-not-clamped", "the end is past the last key: no more than len_kv exist",
            {.end_clamped = false, .far_free = far_free});
  }
  mistake("end-by-queries", "the end was limited by len_q; it counts keys: len_kv",
          {.end_by_len_q = true});
  mistake("sides-exchanged",
          "left and right are exchanged: `left` keys lie back, earlier than the query, and `right` "
          "keys ahead",
          {.sides_exchanged = true});
  mistake("minus-one-taken-as-length", "-1 was taken as a number of keys; it means no limit",
          {.unlimited = Way::kMinusOne});
  mistake("zero-as-no-limit", "0 keys on a side was taken as no limit; only -1 is",
          {.unlimited = Way::kZeroToo});
  mistake("no-limit-as-zero", "no limit was taken as 0 keys on that side",
          {.unlimited = Way::kZero});
  mistake("no-limit-too-near",
          "no limit was taken as len_kv keys; a query that stands before key 0 looks farther ahead "
          "than that: take UNLIMITED",
          {.unlimited = Way::kLength});
  exercise::check_output({"query", 2, 0, {"first_key", "end_key"}}, all_limits(s, got),
                         all_limits(s, [&](int query) { return keys_of(s, query, Way{}); }),
                         mistakes);
}

TEST_CASE("no mask: 3 queries, 4 keys") { check_limits({3, 4, -1, -1}); }
TEST_CASE("causal: 5 queries, 5 keys") { check_limits({5, 5, -1, 0}); }
TEST_CASE("causal: 3 queries, 7 keys") { check_limits({3, 7, -1, 0}); }
TEST_CASE("left 2, right 0: 4 queries, 6 keys") { check_limits({4, 6, 2, 0}); }
TEST_CASE("left 2, right 1: 8 queries, 8 keys") { check_limits({8, 8, 2, 1}); }
TEST_CASE("left 0, no limit ahead: 6 queries, 9 keys") { check_limits({6, 9, 0, -1}); }
TEST_CASE("causal: 1 query, the newest token, 9 keys") { check_limits({1, 9, -1, 0}); }
TEST_CASE("left 3, right 0: 1 query, 9 keys") { check_limits({1, 9, 3, 0}); }
TEST_CASE("causal: 7 queries, 4 keys: the first see nothing") { check_limits({7, 4, -1, 0}); }
TEST_CASE("no mask: 7 queries, 4 keys") { check_limits({7, 4, -1, -1}); }
TEST_CASE("left 1, right 1: 7 queries, 4 keys") { check_limits({7, 4, 1, 1}); }
TEST_CASE("causal: 2 queries, no key at all") { check_limits({2, 0, -1, 0}); }
