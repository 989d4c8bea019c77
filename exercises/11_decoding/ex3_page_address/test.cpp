#include <doctest/doctest.h>

#include <algorithm>
#include <page_address.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  int64_t address_of(const Cache& cache, PageTable& table, int sequence, int kv_head,
                     int key) const {
    const int size = cache.page_size;
    const int length = cache.lengths[is("length-of-the-first-sequence") ? 0 : sequence];
    const bool exists = is("one-key-too-many")     ? key <= length
                        : is("last-key-missed")    ? key < length - 1
                        : is("page-for-key")       ? key / size < (length + size - 1) / size
                        : is("columns-for-length") ? key / size < table.columns()
                        : is("end-not-asked")      ? true
                                                   : key < length;
    int64_t at_column = is("one-later")            ? key / size + 1
                        : is("next-key")           ? (key + 1) / size
                        : is("table-asked-by-key") ? key
                        : is("first-page-for-all") ? 0
                                                   : key / size;
    int64_t at_row = is("row-in-the-sequence")    ? key
                     : is("row-counted-from-one") ? (key + 1) % size
                     : is("row-forgotten")        ? 0
                                                  : key % size;
    if (is("divided-and-remainder-exchanged")) std::swap(at_column, at_row);
    const int64_t rows = std::ssize(cache.lengths);
    const int64_t index = is("table-of-the-first-sequence") ? at_column
                          : is("table-transposed")          ? at_column * rows + sequence
                          : is("rows-of-page-size")         ? sequence * size + at_column
                          : is("rows-of-length")            ? sequence * length + at_column
                          : is("table-of-the-head")         ? kv_head * table.columns() + at_column
                                                    : sequence * table.columns() + at_column;
    if (!is("asked-before-the-end") && !exists) return is.integer("nowhere", NOWHERE);
    const int64_t page = is("table-not-asked") ? at_column : table.look_up(index);
    if (!exists) return is.integer("nowhere", NOWHERE);
    const int64_t head = is("head-forgotten") ? 0 : kv_head;
    int64_t at =
        is("rows-before-heads") ? (page * size + at_row) * cache.kv_heads + head
        : is("heads-before-pages")
            ? (head * cache.pages + page) * size + at_row
            : (page * (is("heads-not-in-page") ? 1 : cache.kv_heads) + head) * size + at_row;
    if (!is("dim-forgotten")) at *= cache.dim;
    if (is("bytes-for-numbers")) at *= 2;
    const auto low_bits = static_cast<uint32_t>(at);
    return is("as-int") ? static_cast<int32_t>(low_bits) : is("as-unsigned") ? low_bits : at;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int64_t address_of(const Cache& cache, PageTable& table, int sequence, int kv_head,
                     int key) const {
    return ::address_of(cache, table, sequence, kv_head, key);
  }
};

static const exercise::Table MISTAKES(R"(
divided-and-remainder-exchanged
  key / page_size was taken for the row and key % page_size for the page. The other way round
one-page-too-far: one-later; next-key
  the page is one too far, for all keys or for the last of each page. Key / page_size, and the first
  is 0
table-asked-by-key
  the key itself was looked up. The table has a column for each page: key / page_size
first-page-for-all
  all keys were looked for in the sequence's first page
row-in-the-sequence
  the row is the key's in the sequence. In its page it is key % page_size
row-counted-from-one
  the row is (key + 1) % page_size. The first row is 0
row-forgotten
  all keys of a page have one address. The row is missing
table-of-the-first-sequence
  the first row of the table was asked, whichever sequence it is
table-transposed
  the table was read as [columns, sequences]. Its order is [sequences, columns]
rows-of-page-size
  rows of the table were taken to have page_size numbers. They have table.columns()
rows-of-length
  rows of the table were taken to be as long as the sequence. They have table.columns()
table-of-the-head
  the row of the table was chosen by the head. All heads of a sequence are in the same pages
table-not-asked
  the page's place in the sequence was taken for its number. The table says which page it is
asked-before-the-end
  the table was asked about a key that does not exist. Ask whether it does first
one-key-too-many
  the key at the length was taken to exist. The last one is length - 1
last-key-missed
  the last key was taken not to exist. It is key length - 1
page-for-key
  the page exists, but the key does not: the last page is full up to the length only
columns-for-length
  keys exist up to the end of the table's row. But the row has room for more keys than the sequence
  has
end-not-asked
  keys past the end were looked up, and the page in the table was used
length-of-the-first-sequence
  the length is that of sequence 0
rows-before-heads
  the address is that of [pages, page_size, kv_heads, dim]. A page has all rows of a head side by
  side
heads-before-pages
  the address is that of [kv_heads, pages, page_size, dim]. A page has all heads
heads-not-in-page
  pages were taken to be page_size * dim apart. Each has kv_heads times as many numbers
head-forgotten
  all heads have the address of head 0
dim-forgotten
  rows were counted. A row has dim numbers
bytes-for-numbers
  bytes were counted. The address is in numbers of K
thirty-two-bits: as-int; as-unsigned
  the address was computed in 32 bits and lost some: a product of ints is an int
zero-for-nowhere: nowhere=0
  for a key that does not exist the answer is another number than NOWHERE. 0 is the address of one
)");

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
  exercise::check_output<Way, Answer>({"key", 3, 0, {"address", "look_ups", "index"}}, MISTAKES,
                                      run);
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
