#include <doctest/doctest.h>

#include <causal_mask.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

struct Corner {
  int64_t query, key, len_q, len_kv;
};

// The scores with those hidden for which hides(i, j in the tile) is true.
template <class Hides>
static Numbers masked(const std::vector<float>& s, int64_t keys, Hides hides, float value) {
  Numbers result;
  for (size_t n = 0; n < s.size(); ++n) {
    const int64_t i = static_cast<int64_t>(n) / keys, j = static_cast<int64_t>(n) % keys;
    result.push_back(hides(i, j) ? value : s[n]);
  }
  return result;
}

static const char* const kLarge =
    "hidden scores are a large negative number instead of -inf. If a query sees no key at all, its "
    "weights are then 1 and not 0";

static void check_tile(int64_t queries, int64_t keys, Corner at) {
  const std::vector<float> s = exercise::random_numbers(static_cast<int>(queries * keys), 1);
  std::vector<float> got = s;
  mask_tile({got.data(), queries, keys}, at.query, at.key, at.len_q, at.len_kv);
  const int64_t corner = at.query - at.key, longer = at.len_kv - at.len_q;
  const auto hidden = [&](int64_t distance, float value = -tiles::kInfinity) {
    return masked(
        s, keys, [=](int64_t i, int64_t j) { return j > i + distance; }, value);
  };
  float large = -1e30f;  // or what the answer took instead
  for (size_t n = 0; n < s.size(); ++n)
    if (got[n] != s[n] && got[n] < -1000 && std::isfinite(got[n])) large = got[n];
  const Numbers right = hidden(corner + longer);
  // Rows whose last visible key, in the tile, comes before this one are left as they are.
  const auto seen_from = [&](int64_t key) {
    return masked(
        s, keys,
        [=](int64_t i, int64_t j) {
          const int64_t last = i + corner + longer;
          return last >= key && j > last;
        },
        -tiles::kInfinity);
  };
  // The last key that a query sees, in the tile, is none before this one.
  const auto not_before = [&](int64_t key) {
    return masked(
        s, keys, [=](int64_t i, int64_t j) { return j > std::max(i + corner + longer, key); },
        -tiles::kInfinity);
  };
  const char* relative =
      "i and j are counted from the tile's corner, which is right in the first tile only";
  exercise::check_output(
      {"s", static_cast<int>(keys), 0}, exercise::numbers(got), right,
      {{"tile-relative", hidden(longer), relative},
       {"tile-relative", hidden(0), relative},
       {"lengths-forgotten", hidden(corner),
        "query i sees keys 0 to i, as if there were as many keys as queries. The last query sees "
        "every key: add len_kv - len_q"},
       {"shape-of-the-tile", hidden(corner + keys - queries),
        "the tile's own s.cols - s.rows was added. It should be len_kv - len_q, of the whole "
        "matrix"},
       {"offset-reversed", hidden(corner - longer),
        "len_q - len_kv was added. It should be len_kv - len_q: with more keys, a query sees "
        "further"},
       {"row-offset-forgotten", hidden(longer - at.key),
        "i is counted from the tile's first row. Add first_query"},
       {"column-offset-forgotten", hidden(longer + at.query),
        "j is counted from the tile's first column. Add first_key"},
       {"offsets-exchanged", hidden(at.key - at.query + longer),
        "first_key was added to the row and first_query to the column"},
       {"other-triangle",
        masked(
            s, keys, [=](int64_t i, int64_t j) { return j < i + corner + longer; },
            -tiles::kInfinity),
        "the keys before the query were hidden. The mask hides those that come after it"},
       {"other-triangle",
        masked(
            s, keys, [=](int64_t i, int64_t j) { return j <= i + corner + longer; },
            -tiles::kInfinity),
        "the keys before the query were hidden. The mask hides those that come after it"},
       {"other-triangle",
        masked(
            s, keys, [=](int64_t i, int64_t j) { return at.query + i > at.key + j + longer; },
            -tiles::kInfinity),
        "query and key are exchanged: hidden is a key that comes after the query"},
       {"hidden-rows-left-alone", seen_from(0),
        "a row that sees no key of this tile kept its scores: it was skipped, or the last key that "
        "it sees, below 0 in the tile, was taken as unsigned. All of such a row is hidden"},
       {"hidden-rows-left-alone", seen_from(1),
        "a row that sees no key of this tile, or only the first one, kept its scores. Hide all "
        "keys that come after the query"},
       {"hidden-rows-left-alone", seen_from(-at.key),
        "a query that is before every key kept its scores: it was skipped, or its negative "
        "position was taken as unsigned. All keys of such a row are masked"},
       {"hidden-tile-left-alone", queries - 1 + corner + longer < 0 ? exercise::numbers(s) : right,
        "a fully masked tile was left unchanged: it can be skipped where it is loaded, but this "
        "function must write -inf"},
       {"hidden-tile-left-alone", at.key > at.query + queries - 1 ? exercise::numbers(s) : right,
        "a tile whose first key comes after its last query was left unchanged. This function must "
        "write -inf, and with len_kv - len_q the query may even see the key"},
       {"first-key-always-seen", not_before(0),
        "a query that sees no key of this tile got its first key, because the last visible key was "
        "not allowed to be below 0, where no key is visible"},
       {"first-key-always-seen", not_before(-at.key),
        "a query that sees no key got key 0, because the last visible key was not allowed to be "
        "below 0, where no key is visible"},
       {"next-key-seen", hidden(corner + longer + 1),
        "each query sees one key too many, which is the key after its own"},
       {"nothing-hidden", exercise::numbers(s), "no score was hidden"},
       {"own-key-hidden", hidden(corner + longer - 1),
        "one key too many is hidden from each query: a token sees itself, so > and not >="},
       {"large-number-for-hidden", hidden(corner + longer, large), kLarge},
       {"large-number-for-hidden", hidden(corner + longer, -1e9f), kLarge},
       {"large-number-for-hidden", hidden(corner + longer, -1e10f), kLarge},
       {"large-number-for-hidden", hidden(corner + longer, std::numeric_limits<float>::lowest()),
        kLarge},
       {"plus-infinity", hidden(corner + longer, tiles::kInfinity),
        "hidden scores are +inf, the largest. The sign is missing"},
       {"zero-for-hidden", hidden(corner + longer, 0),
        "hidden scores are 0, and e^0 = 1 is a weight like any other. e^(-inf) is 0"}});
}

TEST_CASE("the whole matrix is one tile") { check_tile(4, 4, {0, 0, 4, 4}); }
TEST_CASE("a tile on the diagonal") { check_tile(4, 4, {8, 8, 16, 16}); }
TEST_CASE("a tile that the diagonal crosses elsewhere") { check_tile(4, 8, {12, 8, 16, 16}); }
TEST_CASE("a tile that is hidden as a whole") { check_tile(4, 4, {4, 8, 16, 16}); }
TEST_CASE("a tile that is seen as a whole") { check_tile(4, 4, {12, 0, 16, 16}); }
TEST_CASE("more keys than queries") { check_tile(4, 8, {4, 8, 8, 14}); }
TEST_CASE("more queries than keys") { check_tile(8, 4, {0, 0, 8, 4}); }
