#include <doctest/doctest.h>

#include <algorithm>
#include <page_address.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  bool exchanged = false;  // key / page_size and key % page_size
  enum Column { kDown, kOneLater, kNextKey, kKey, kZero } column = kDown;
  enum Row { kInPage, kInSequence, kInPageFromOne, kForgotten } row = kInPage;
  enum Table {
    kOfSequence,
    kOfFirst,
    kTransposed,
    kByPageSize,
    kByLength,
    kNotAsked,
    kByHead
  } of = kOfSequence;
  enum End {
    kAtLength,
    kOneLate,
    kOneEarly,
    kByPage,
    kByColumns,
    kNever,
    kOfFirstSequence
  } end = kAtLength;
  enum Order { kHeadsInPage, kRowsFirst, kHeadsFirst } order = kHeadsInPage;
  bool head_forgotten = false, dim_forgotten = false, in_bytes = false, in_32_bits = false;
  bool asked_before = false, page_by_dim = false;
  int64_t nowhere = NOWHERE;

  int64_t address_of(const Cache& cache, PageTable& table, int sequence, int kv_head,
                     int key) const {
    const int size = cache.page_size;
    const int length = cache.lengths[end == kOfFirstSequence ? 0 : sequence];
    const bool exists = end == kOneLate     ? key <= length
                        : end == kOneEarly  ? key < length - 1
                        : end == kByPage    ? key / size < (length + size - 1) / size
                        : end == kByColumns ? key / size < table.columns()
                        : end == kNever     ? true
                                            : key < length;
    int64_t at_column = column == kOneLater  ? key / size + 1
                        : column == kNextKey ? (key + 1) / size
                        : column == kKey     ? key
                        : column == kZero    ? 0
                                             : key / size;
    int64_t at_row = row == kInSequence      ? key
                     : row == kInPageFromOne ? (key + 1) % size
                     : row == kForgotten     ? 0
                                             : key % size;
    if (exchanged) std::swap(at_column, at_row);
    const int64_t rows = std::ssize(cache.lengths);
    const int64_t index = of == kOfFirst      ? at_column
                          : of == kTransposed ? at_column * rows + sequence
                          : of == kByPageSize ? sequence * size + at_column
                          : of == kByLength   ? sequence * length + at_column
                          : of == kByHead     ? kv_head * table.columns() + at_column
                                              : sequence * table.columns() + at_column;
    if (!asked_before && !exists) return nowhere;
    const int64_t page = of == kNotAsked ? at_column : table.look_up(index);
    if (!exists) return nowhere;
    const int64_t head = head_forgotten ? 0 : kv_head;
    int64_t at = order == kRowsFirst ? (page * size + at_row) * cache.kv_heads + head
                 : order == kHeadsFirst
                     ? (head * cache.pages + page) * size + at_row
                     : (page * (page_by_dim ? 1 : cache.kv_heads) + head) * size + at_row;
    if (!dim_forgotten) at *= cache.dim;
    if (in_bytes) at *= 2;
    return in_32_bits ? static_cast<int32_t>(static_cast<uint32_t>(at)) : at;
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  int64_t address_of(const Cache& cache, PageTable& table, int sequence, int kv_head,
                     int key) const {
    return ::address_of(cache, table, sequence, kv_head, key);
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const off_by_one =
      "the page is one too far, for all keys or for the last of each page; key / page_size, and "
      "the first is 0";
  static const char* const nowhere_zero =
      "for a key that does not exist the answer is another number than NOWHERE; 0 is the address "
      "of one";
  static const std::vector<Known> known = {
      {"divided-and-remainder-exchanged",
       {.exchanged = true},
       "key / page_size was taken for the row and key % page_size for the page; the other way "
       "round"},
      {"one-page-too-far", {.column = W::kOneLater}, off_by_one},
      {"one-page-too-far", {.column = W::kNextKey}, off_by_one},
      {"table-asked-by-key",
       {.column = W::kKey},
       "the key itself was looked up; the table has a column for each page: key / page_size"},
      {"first-page-for-all",
       {.column = W::kZero},
       "all keys were looked for in the sequence's first page"},
      {"row-in-the-sequence",
       {.row = W::kInSequence},
       "the row is the key's in the sequence; in its page it is key % page_size"},
      {"row-counted-from-one",
       {.row = W::kInPageFromOne},
       "the row is (key + 1) % page_size; the first row is 0"},
      {"row-forgotten",
       {.row = W::kForgotten},
       "all keys of a page have one address; the row is missing"},
      {"table-of-the-first-sequence",
       {.of = W::kOfFirst},
       "the first row of the table was asked, whichever sequence it is"},
      {"table-transposed",
       {.of = W::kTransposed},
       "the table was read as [columns, sequences]; it is [sequences, columns]"},
      {"rows-of-page-size",
       {.of = W::kByPageSize},
       "rows of the table were taken to have page_size numbers; table.columns()"},
      {"rows-of-length",
       {.of = W::kByLength},
       "rows of the table were taken to be as long as the sequence; table.columns()"},
      {"table-of-the-head",
       {.of = W::kByHead},
       "the row of the table was chosen by the head; all heads of a sequence are in the same "
       "pages"},
      {"table-not-asked",
       {.of = W::kNotAsked},
       "the page's place in the sequence was taken for its number; the table says which page it "
       "is"},
      {"asked-before-the-end",
       {.asked_before = true},
       "the table was asked about a key that does not exist; ask whether it does first"},
      {"one-key-too-many",
       {.end = W::kOneLate},
       "the key at the length was taken to exist; the last one is length - 1"},
      {"last-key-missed",
       {.end = W::kOneEarly},
       "the last key was taken not to exist; it is length - 1"},
      {"page-for-key",
       {.end = W::kByPage},
       "the page exists, but the key does not: the last page is full up to the length only"},
      {"columns-for-length",
       {.end = W::kByColumns},
       "keys exist up to the end of the table's row; it has room for more than the sequence has"},
      {"end-not-asked",
       {.end = W::kNever},
       "keys behind the end were looked up, and what the table holds there was followed"},
      {"length-of-the-first-sequence",
       {.end = W::kOfFirstSequence},
       "the length is that of sequence 0"},
      {"rows-before-heads",
       {.order = W::kRowsFirst},
       "the address is that of [pages, page_size, kv_heads, dim]; a page has all rows of a head "
       "side by side"},
      {"heads-before-pages",
       {.order = W::kHeadsFirst},
       "the address is that of [kv_heads, pages, page_size, dim]; a page has all heads"},
      {"heads-not-in-page",
       {.page_by_dim = true},
       "pages were taken to lie page_size * dim apart; each has kv_heads times as much"},
      {"head-forgotten", {.head_forgotten = true}, "all heads have the address of head 0"},
      {"dim-forgotten", {.dim_forgotten = true}, "rows were counted; a row has dim numbers"},
      {"bytes-for-numbers",
       {.in_bytes = true},
       "bytes were counted; the address is in numbers of K"},
      {"thirty-two-bits",
       {.in_32_bits = true},
       "the address was computed in 32 bits and lost some: a product of ints is an int"},
      {"zero-for-nowhere", {.nowhere = 0}, nowhere_zero},
  };
  return known;
}

static void check_keys(const Cache& cache, const PageTable& table, int sequence, int kv_head,
                       const std::vector<int>& keys) {
  const auto run = [&](const auto& way) {
    Numbers result;
    for (const int key : keys) {
      PageTable fresh = table;
      result.push_back(static_cast<double>(way.address_of(cache, fresh, sequence, kv_head, key)));
      result.push_back(static_cast<double>(fresh.asked().size()));
      result.push_back(fresh.asked().empty() ? -1 : static_cast<double>(fresh.asked().front()));
    }
    return result;
  };
  const auto mistakes = exercise::mistakes(all_known(), run);
  exercise::check_output({"key", 3, 0, {"address", "look_ups", "index"}}, run(Answer{}), run(Way{}),
                         mistakes);
}

static std::vector<int> keys_to(int end) {
  std::vector<int> keys(end);
  for (int key = 0; key < end; ++key) keys[key] = key;
  return keys;
}

// The README's: 3 columns, and # is garbage that looks like a page.
static const PageTable kTable(3, {7, 2, 3, 5, 6, 7});
static const Cache kCache{9, 2, 4, 8, {6, 3}};

TEST_CASE("sequence 0 of the README's, head 0, keys 0 to 12") {
  check_keys(kCache, kTable, 0, 0, keys_to(13));
}
TEST_CASE("sequence 0 of the README's, head 1, keys 0 to 5") {
  check_keys(kCache, kTable, 0, 1, keys_to(6));
}
TEST_CASE("sequence 1 of the README's, head 1, keys 0 to 8") {
  check_keys(kCache, kTable, 1, 1, keys_to(9));
}
TEST_CASE("lengths 0, 8 and 5, pages of 4: an empty sequence, and full pages") {
  const PageTable table(2, {4, 4, 1, 5, 3, 0});
  const Cache cache{6, 3, 4, 16, {0, 8, 5}};
  check_keys(cache, table, 0, 0, keys_to(3));
  check_keys(cache, table, 1, 2, keys_to(9));
  check_keys(cache, table, 2, 1, keys_to(8));
}
TEST_CASE("pages of 1") {
  const PageTable table(4, {3, 0, 4, 1, 2, 5, 9, 9});
  const Cache cache{6, 2, 1, 8, {4, 2}};
  check_keys(cache, table, 0, 1, keys_to(5));
  check_keys(cache, table, 1, 0, keys_to(4));
}
TEST_CASE("pages of 16, 400000 of them") {
  const PageTable table(2, {399999, 7, 200001, 131072});
  const Cache cache{400000, 8, 16, 128, {20, 32}};
  check_keys(cache, table, 0, 7, {0, 1, 15, 16, 19, 20, 31});
  check_keys(cache, table, 1, 5, {0, 1, 15, 16, 31, 32, 40});
}
