// The pool and the tables: no page has two owners, none is lost, and a refused call changes
// nothing.
#include <doctest/doctest.h>

#include <set>

#include "pages.hpp"

using namespace ch11;

namespace {

using Table = std::vector<int32_t>;

Table copy(std::span<const int32_t> numbers) { return {numbers.begin(), numbers.end()}; }

// Checks that every row has different pages of the pool, as many as its length needs, and then
// garbage. Returns the total number of pages.
int64_t check_table(std::span<const int32_t> table, std::span<const int32_t> lengths,
                    int64_t columns, int64_t page_size, int64_t pages) {
  std::set<int32_t> seen;
  REQUIRE(std::ssize(table) == std::ssize(lengths) * columns);
  for (int64_t n = 0; n < std::ssize(lengths); ++n) {
    const int64_t needed = (lengths[n] + page_size - 1) / page_size;
    for (int64_t i = 0; i < columns; ++i) {
      const int32_t page = table[n * columns + i];
      if (i >= needed) {
        REQUIRE(page == kNoPage);
        continue;
      }
      REQUIRE(page >= 0);
      REQUIRE(page < pages);
      REQUIRE(seen.insert(page).second);
    }
  }
  return std::ssize(seen);
}

}  // namespace

// ---- the pool ----

TEST_CASE("a pool gives each page once, and says when it is empty") {
  PagePool pool(5);
  std::set<int32_t> pages;
  for (int i = 0; i < 5; ++i) {
    CHECK(pool.used() == i);
    CHECK(pool.free() == 5 - i);
    const std::optional<int32_t> page = pool.take();
    REQUIRE(page);
    CHECK(*page == i);  // a new pool gives them in ascending order
    pages.insert(*page);
  }
  CHECK(pages.size() == 5);
  CHECK_FALSE(pool.take());
  CHECK(pool.used() == 5);
  pool.give_back(3);
  CHECK(pool.used() == 4);
  CHECK(pool.take() == 3);
  CHECK_FALSE(pool.take());
  CHECK(pool.size() == 5);
}

TEST_CASE("a page that is free, or of no pool, cannot be given back") {
  PagePool pool(3);
  CHECK_THROWS_AS(pool.give_back(0), std::logic_error);  // never taken
  const int32_t page = *pool.take();
  pool.give_back(page);
  CHECK_THROWS_AS(pool.give_back(page), std::logic_error);
  for (const int32_t foreign : {-1, 3, kNoPage, std::numeric_limits<int32_t>::max()}) {
    CHECK_THROWS_AS(pool.give_back(foreign), std::logic_error);
  }
  CHECK(pool.free() == 3);  // and that changed nothing
  std::set<int32_t> pages;
  while (const std::optional<int32_t> next = pool.take()) pages.insert(*next);
  CHECK(pages.size() == 3);
}

TEST_CASE("pools of no pages, and of impossible numbers") {
  CHECK_FALSE(PagePool(0).take());
  CHECK_THROWS_AS(PagePool(-1), fa::InputError);
  CHECK_THROWS_AS(PagePool(int64_t{1} << 31), fa::InputError);
}

// ---- the table ----

TEST_CASE("append takes a page when the last one is full, and not before") {
  for (const int64_t page_size : {1, 3, 16, 256}) {
    CAPTURE(page_size);
    PagePool pool(4);
    PageTable table(pool, 1, 4, page_size);
    for (int64_t length = 0; length < 4 * page_size; ++length) {
      REQUIRE(table.length(0) == length);
      REQUIRE(table.pages(0) == (length + page_size - 1) / page_size);
      REQUIRE(pool.used() == table.pages(0));
      const Table before = copy(table.row(0));
      REQUIRE(table.append(0, 1));
      for (int64_t i = 0; i < 4; ++i) {  // existing pages keep their place
        if (before[i] != kNoPage) REQUIRE(table.row(0)[i] == before[i]);
      }
      REQUIRE(table.place(0, length) ==
              Place{table.row(0)[length / page_size], length % page_size});
    }
    CHECK(pool.free() == 0);
    CHECK_THROWS_AS(table.append(0, 1), fa::InputError);  // the row of the table is full
    CHECK(table.length(0) == 4 * page_size);
  }
}

TEST_CASE("places: row t % page_size of page table[t / page_size]") {
  const Table row = {7, 2, 9, kNoPage};
  CHECK(place_of(row, 0, 16) == Place{7, 0});
  CHECK(place_of(row, 15, 16) == Place{7, 15});
  CHECK(place_of(row, 16, 16) == Place{2, 0});
  CHECK(place_of(row, 47, 16) == Place{9, 15});
  CHECK(place_of(row, 2, 1) == Place{9, 0});
}

TEST_CASE("an empty pool: append says so, and nothing has changed") {
  PagePool pool(3);
  PageTable table(pool, 2, 8, 16);
  REQUIRE(table.append(0, 17));
  REQUIRE(table.append(1, 10));
  CHECK(pool.free() == 0);
  const Table before = copy(table.table());
  CHECK_FALSE(table.append(0, 16));  // 33 tokens are one page too many
  CHECK_FALSE(table.append(1, 50));
  CHECK(copy(table.table()) == before);
  CHECK(table.length(0) == 17);
  CHECK(table.length(1) == 10);
  CHECK(table.append(0, 15));  // there is still room in the last page
  CHECK(table.append(1, 0));
  table.release(0);
  CHECK(pool.free() == 2);
  CHECK_FALSE(table.append(1, 39));  // three pages are needed but two are free, so none is taken
  CHECK(pool.free() == 2);
  CHECK(table.append(1, 38));
  CHECK(table.length(1) == 48);
}

TEST_CASE("released pages go to others, and to the pool when the table ends") {
  PagePool pool(4);
  {
    PageTable table(pool, 3, 4, 16);
    REQUIRE(table.append(0, 20));
    REQUIRE(table.append(1, 32));
    table.release(0);
    CHECK(table.length(0) == 0);
    CHECK(copy(table.row(0)) == Table(4, kNoPage));
    CHECK(copy(table.row(1)) == Table{2, 3, kNoPage, kNoPage});
    table.release(0);  // it has no pages left
    REQUIRE(table.append(2, 17));
    CHECK(copy(table.row(2)) == Table{0, 1, kNoPage, kNoPage});
    CHECK(copy(table.lengths()) == Table{0, 32, 17});
    CHECK(pool.used() == 4);
  }
  CHECK(pool.used() == 0);
}

TEST_CASE("what a table refuses") {
  PagePool pool(10);
  for (const int64_t page_size : {-1, 0, 257}) {
    CHECK_THROWS_AS(PageTable(pool, 1, 1, page_size), fa::InputError);
  }
  CHECK_THROWS_AS(PageTable(pool, -1, 1, 16), fa::InputError);
  CHECK_THROWS_AS(PageTable(pool, 1, -1, 16), fa::InputError);
  CHECK_THROWS_AS(PageTable(pool, 1, int64_t{1} << 27, 16), fa::InputError);  // 2^31 tokens
  CHECK_THROWS_AS(PageTable(pool, 1, int64_t{1} << 62, 16), fa::InputError);
  PageTable table(pool, 2, 4, 16);
  CHECK_THROWS_AS(table.append(-1, 1), fa::InputError);
  CHECK_THROWS_AS(table.append(2, 1), fa::InputError);
  CHECK_THROWS_AS(table.append(0, -1), fa::InputError);
  CHECK_THROWS_AS(table.append(0, 65), fa::InputError);
  CHECK_THROWS_AS(table.append(0, std::numeric_limits<int64_t>::max()), fa::InputError);
  CHECK_THROWS_AS(table.release(2), fa::InputError);
  CHECK_THROWS_AS((void)table.length(2), fa::InputError);
  CHECK_THROWS_AS((void)table.row(-1), fa::InputError);
  CHECK_THROWS_AS((void)table.place(0, 0), fa::InputError);
  REQUIRE(table.append(0, 5));
  CHECK_THROWS_AS((void)table.place(0, 5), fa::InputError);
  CHECK_THROWS_AS((void)table.place(0, -1), fa::InputError);
  CHECK(pool.used() == 1);
}

TEST_CASE("any order of appends and releases: no page is lost and none has two owners") {
  std::mt19937_64 random(11);
  const auto up_to = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
  };
  for (const int64_t page_size : {1, 3, 16, 64, 256}) {
    constexpr int64_t pages = 40, sequences = 6, columns = 12;
    PagePool pool(pages);
    int64_t refused = 0, released = 0;
    {
      PageTable table(pool, sequences, columns, page_size);
      std::vector<int32_t> lengths(sequences);  // the expected lengths
      for (int step = 0; step < 400; ++step) {
        const int64_t n = up_to(sequences - 1);
        if (up_to(9) == 0) {
          table.release(n);
          lengths[n] = 0;
          ++released;
        } else {
          const int64_t tokens = up_to(2 * page_size);
          if (lengths[n] + tokens > columns * page_size) continue;
          const Table before = copy(table.table());
          if (table.append(n, tokens)) {
            lengths[n] += static_cast<int32_t>(tokens);
          } else {
            REQUIRE(copy(table.table()) == before);
            ++refused;
          }
        }
        REQUIRE(copy(table.lengths()) == lengths);
        REQUIRE(check_table(table.table(), lengths, columns, page_size, pages) == pool.used());
        REQUIRE(pool.used() + pool.free() == pages);
      }
    }
    CHECK(refused > 0);  // both occurred
    CHECK(released > 0);
    CHECK(pool.used() == 0);
    std::set<int32_t> all;
    while (const std::optional<int32_t> page = pool.take()) all.insert(*page);
    CHECK(std::ssize(all) == pages);
  }
}

// ---- scattered pages ----

TEST_CASE("scattered pages: every one once, the same ones for the same seed") {
  const std::vector<int32_t> lengths = {0, 1, 16, 17, 200};
  const Table table = scattered_table(lengths, 14, 16, 50, 1);
  CHECK(check_table(table, lengths, 14, 16, 50) == 0 + 1 + 1 + 2 + 13);
  CHECK(table == scattered_table(lengths, 14, 16, 50, 1));
  CHECK(table != scattered_table(lengths, 14, 16, 50, 2));
  // The same on every machine.
  CHECK(scattered_table(std::vector<int32_t>{8}, 9, 1, 8, 1) ==
        Table{4, 6, 3, 5, 1, 7, 2, 0, kNoPage});
}

TEST_CASE("scattered pages: all sequences share the first ones") {
  const std::vector<int32_t> lengths = {40, 33, 32};  // two pages of 16 are shared, two are not
  const Table table = scattered_table(lengths, 3, 16, 4, 1, 2);
  for (const size_t i : {0, 1}) {
    CHECK(table[3 + i] == table[i]);
    CHECK(table[6 + i] == table[i]);
  }
  CHECK(std::set<int32_t>{table[0], table[1], table[2], table[5]} == std::set<int32_t>{0, 1, 2, 3});
  CHECK(table[8] == kNoPage);
  CHECK_THROWS_AS(scattered_table(lengths, 3, 16, 3, 1, 2), fa::InputError);
  CHECK_THROWS_AS(scattered_table(lengths, 3, 16, 9, 1, 3), fa::InputError);  // one has only two
}

TEST_CASE("scattered pages: as many as there are, and not one more") {
  const std::vector<int32_t> lengths = {32, 33};
  CHECK(check_table(scattered_table(lengths, 3, 16, 5, 3), lengths, 3, 16, 5) == 5);
  CHECK_THROWS_AS(scattered_table(lengths, 3, 16, 4, 3), fa::InputError);
  CHECK_THROWS_AS(scattered_table(lengths, 2, 16, 5, 3), fa::InputError);
  CHECK_THROWS_AS(scattered_table(lengths, 3, 0, 5, 3), fa::InputError);
  CHECK_THROWS_AS(scattered_table(std::vector<int32_t>{-1}, 3, 16, 5, 3), fa::InputError);
  CHECK(scattered_table({}, 3, 16, 5, 3).empty());
}
