#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>
#include <which_keys.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Changes;
using exercise::Numbers;

struct Sizes {
  int len_q, len_kv, left, right;
};

static const exercise::Table MISTAKES(R"(
top-left-aligned: {,first-top-left }end-top-left; first-top-left
  query i was placed at key i, as if the first query met the first key. The last query meets the
  last key: add diagonal = len_kv - len_q at both ends
diagonal-reversed: {,first-reversed }end-reversed; first-reversed
  the diagonal is len_q - len_kv. With more keys a query is further to the right: len_kv - len_q
diagonal-never-negative: diagonal-at-least-0; diagonal-positive
  with more queries than keys the diagonal is negative: the first queries are before key 0
place-never-negative
  the position of a query was clamped to key 0. With more queries than keys the first queries are
  before key 0, and see `right` keys from there, or none
one-key-at-least
  a query that sees nothing was given one key. Its end is at or before its first key
window-too-narrow
  `left` keys were counted with the query's own. They are the keys before it
window-too-wide
  one key too many back: the first is at query + diagonal - left
end-is-the-last-key
  the end is the last key that is seen. It must be one more: + 1
next-key-seen
  each query sees one key too many ahead: + 1 was added twice
first-not-clamped: first-free {,far-free}
  the first key is below 0 for the first queries. No such key exists, and -3 / 4 is 0, not -1: take
  0
limits-not-clamped: first-free end-free {,far-free}
  neither limit is clamped: no key is below 0, and no more than len_kv exist
end-not-clamped: end-free {,far-free}
  the end is past the last key: no more than len_kv exist
end-by-queries
  the end was limited by len_q. It counts keys, so len_kv limits it
sides-exchanged
  left and right are exchanged: the `left` keys come before the query, and the `right` keys come
  after it
minus-one-taken-as-length
  -1 was taken as a number of keys. It means no limit
zero-as-no-limit
  0 keys on a side was taken as no limit. Only -1 is
no-limit-as-zero
  no limit was taken as 0 keys on that side
no-limit-too-near
  no limit was taken as len_kv keys. A query before key 0 sees further ahead than that: use
  UNLIMITED
)");

struct Keys {
  int first, end;
};

// The right limits, and each mistake as a change to them.
static Keys keys_of(const Sizes& s, int query, const Changes& is) {
  // The key at which the query is, as it is computed for the first key ("first") or the end.
  const auto place = [&](const std::string& of) {
    const int diagonal = s.len_kv - s.len_q;
    return is("place-never-negative")  ? std::max(query + diagonal, 0)
           : is(of + "-top-left")      ? query
           : is(of + "-reversed")      ? query - diagonal
           : is("diagonal-at-least-0") ? query + std::max(diagonal, 0)
           : is("diagonal-positive")   ? query + std::abs(diagonal)
                                       : query + diagonal;
  };
  const auto side = [&](int limit) {
    if (is("zero-as-no-limit") && limit <= 0) return 1 << 29;
    return limit >= 0                        ? limit
           : is("no-limit-too-near")         ? s.len_kv
           : is("no-limit-as-zero")          ? 0
           : is("minus-one-taken-as-length") ? -1
                                             : 1 << 29;
  };
  const int left = is("sides-exchanged") ? s.right : s.left;
  const int right = is("sides-exchanged") ? s.left : s.right;
  const int narrower = left >= 0 ? is("window-too-narrow") - is("window-too-wide") : 0;
  const int first = place("first") - side(left) + narrower;
  const int end = place("end") + side(right) + !is("end-is-the-last-key") + is("next-key-seen");
  const bool first_free = is("first-free") && (left >= 0 || is("far-free"));
  const bool end_free = is("end-free") && (right >= 0 || is("far-free"));
  Keys keys{first_free ? first : std::max(first, 0),
            end_free ? end : std::min(end, is("end-by-queries") ? s.len_q : s.len_kv)};
  if (is("one-key-at-least")) keys.end = std::max(keys.end, keys.first + 1);
  return keys;
}

// Farther than any key, so that how far does not matter.
static double shown(int key) {
  const double infinity = std::numeric_limits<double>::infinity();
  return key < -100 ? -infinity : key > 100 ? infinity : key;
}

// Returns two limits for each query; 0 and 0 if it sees no key.
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
  const auto with = [&](const Changes& is) {
    return all_limits(s, [&](int query) { return keys_of(s, query, is); });
  };
  exercise::check_output({"query", 2, 0, {"first_key", "end_key"}}, all_limits(s, got), with({}),
                         exercise::mistakes(MISTAKES, with));
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
