#include <doctest/doctest.h>

#include <page_address.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr int kFar = 1'000'000;  // what stands behind a sequence's pages: nobody may follow it

struct Sizes {
  int kv_heads, page_size, dim;
  std::vector<int> lengths;
};

struct Pages {
  int columns;
  std::vector<int> table;  // [sequences, columns]

  explicit Pages(const Sizes& s) : columns(1) {
    for (const int length : s.lengths)
      columns = length / s.page_size + 2 > columns ? length / s.page_size + 2 : columns;
    int next = 3;
    for (const int length : s.lengths)
      for (int i = 0; i < columns; ++i) {
        const bool needed = i * s.page_size < length;
        table.push_back(needed ? next : kFar);
        if (needed) next = (next + 7) % 31;
      }
    table.resize(table.size() + 300, kFar);  // whoever reads behind it shall not crash
  }
};

// The address as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Column { kRight, kExchanged, kNext, kKey } column = kRight;
  enum Order { kHeadsFirst, kRowsFirst, kNoHead, kHeadInFront, kPageRows } order = kHeadsFirst;
  enum Guard { kLess, kLessOrEqual, kNone, kByPages } guard = kLess;
  bool of_sequence = true, with_table = true, times_dim = true, int_32 = false;

  double operator()(const Sizes& s, const Pages& pages, int n, int head, int key) const {
    const int length = s.lengths[n];
    const bool exists = guard == kLess          ? key < length
                        : guard == kLessOrEqual ? key <= length
                        : guard == kByPages     ? key / s.page_size * s.page_size < length
                                                : true;
    if (!exists) return static_cast<double>(NOWHERE);
    const int quotient = key / s.page_size, rest = key % s.page_size;
    const int at = column == kExchanged ? rest
                   : column == kNext    ? quotient + 1
                   : column == kKey     ? key
                                        : quotient;
    const size_t entry = (of_sequence ? n * pages.columns : 0) + at;
    const int64_t page = !with_table                  ? quotient
                         : entry < pages.table.size() ? pages.table[entry]
                                                      : kFar;
    const int64_t row = column == kExchanged ? quotient : rest;
    const int64_t h = s.kv_heads, p = s.page_size;
    const int64_t place = order == kRowsFirst     ? (page * p + row) * h + head
                          : order == kNoHead      ? page * h * p + row
                          : order == kHeadInFront ? (head * 31 + page) * p + row
                          : order == kPageRows    ? page * p + head * p + row
                                                  : (page * h + head) * p + row;
    const int64_t result = place * (times_dim ? s.dim : 1);
    return int_32 ? static_cast<double>(static_cast<int32_t>(result)) : static_cast<double>(result);
  }
};

static void check_rows(const Sizes& s) {
  const Pages pages(s);
  const Cache cache{s.kv_heads, s.page_size, s.dim, pages.table.data(), pages.columns};
  const auto all = [&](auto place) {
    Numbers result;
    for (size_t n = 0; n < s.lengths.size(); ++n)
      for (int head = 0; head < s.kv_heads; ++head)
        for (int key = 0; key < s.lengths[n] + s.page_size && key < s.page_size * pages.columns;
             ++key)
          result.push_back(place(static_cast<int>(n), head, key));
    return result;
  };
  using W = Way;
  std::vector<exercise::Mistake> mistakes;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    mistakes.push_back(
        {name, all([&](int n, int h, int key) { return way(s, pages, n, h, key); }), explanation});
  };
  mistake(
      "quotient-and-rest-exchanged",
      "/ and % are exchanged: key / page_size is the column of the table, key % page_size the row",
      {.column = W::kExchanged});
  mistake("one-page-too-far", "the table was read one entry too far: its columns count from 0",
          {.column = W::kNext});
  mistake("an-entry-for-each-key", "the table was read at the key; it has an entry for each page",
          {.column = W::kKey});
  mistake("table-of-sequence-0",
          "every sequence was given the pages of sequence 0: its own begin at sequence * columns",
          {.of_sequence = false});
  mistake("no-table", "the pages were taken in order, as if no table were there",
          {.with_table = false});
  mistake("rows-before-heads",
          "rows and heads are exchanged: a page is [kv_heads, page_size, dim], head after head",
          {.order = W::kRowsFirst});
  mistake("head-forgotten", "every head was given head 0's row of the page", {.order = W::kNoHead});
  mistake("pages-of-one-head", "a page was taken to hold one head; it holds kv_heads of them",
          {.order = W::kPageRows});
  mistake("dim-forgotten", "rows were counted; the answer is in numbers: times dim",
          {.times_dim = false});
  mistake("keys-that-are-not-there",
          "a key that the sequence does not have was looked up; behind its pages the table holds "
          "anything",
          {.guard = W::kNone});
  mistake("one-key-too-many", "key number `length` was looked up; the last one is length - 1",
          {.guard = W::kLessOrEqual});
  mistake("page-exists-key-does-not",
          "the rest of the last page was taken for keys; they exist up to length only",
          {.guard = W::kByPages});
  mistake("32-bits", "the place was computed in 32 bits, which end at 2^31", {.int_32 = true});
  exercise::check_output({"row", 0, 0}, all([&](int n, int h, int key) {
                           return static_cast<double>(row_of_key(cache, n, s.lengths[n], h, key));
                         }),
                         all([&](int n, int h, int key) { return Way{}(s, pages, n, h, key); }),
                         mistakes);
}

TEST_CASE("one sequence of whole pages") { check_rows({1, 4, 8, {12}}); }
TEST_CASE("the README's") { check_rows({1, 4, 1, {7, 10}}); }
TEST_CASE("three heads, three sequences") { check_rows({3, 4, 8, {5, 0, 9}}); }
TEST_CASE("pages of one key") { check_rows({2, 1, 4, {3, 5}}); }
TEST_CASE("one page for all") { check_rows({2, 16, 8, {16, 3}}); }
TEST_CASE("a large cache") { check_rows({8, 256, 1 << 18, {257}}); }
