#include <doctest/doctest.h>

#include <algorithm>
#include <packed_rows.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  int group_of(const Shape& s) const {
    return is("group-is-kv-heads") ? s.kv_heads : s.heads / s.kv_heads;
  }
  // A wrong number of tiles may be in both of its uses, or in one.
  int tiles_of(const Shape& s, int block_q, bool right) const {
    const int rows = right                     ? group_of(s) * s.len_q
                     : is("tiles-of-one-head") ? s.len_q
                     : is("of-all-heads")      ? s.heads * s.len_q
                     : is("queries")           ? group_of(s)
                                               : group_of(s) * s.len_q;
    return is("rounded-down") && !right ? rows / block_q
           : is("one-more") && !right   ? rows / block_q + 1
                                        : (rows + block_q - 1) / block_q;
  }
  int blocks_for(const Shape& s, int block_q) const {
    return tiles_of(s, block_q, is("not-in-grid")) * (is("grid-of-one-kv-head")   ? 1
                                                      : is("grid-of-query-heads") ? s.heads
                                                                                  : s.kv_heads);
  }
  int keys_of(const Shape& s, int query) const {
    const int diagonal = is("top-left-aligned")    ? 0
                         : is("diagonal-reversed") ? s.len_q - s.len_kv
                                                   : s.len_kv - s.len_q;
    const int end = is("mask-forgotten") ? s.len_kv : query + diagonal + is.integer("behind", 1);
    return !is("end-not-clamped") ? std::max(end, is("one-key-at-least") ? 1 : 0) : end;
  }
  Row row_of(const Shape& s, int kv_head, int row) const {
    const int group = group_of(s);
    const int in_group = is("divided-and-remainder-exchanged")  ? row / group
                         : is("queries-of-a-head-side-by-side") ? row / s.len_q
                                                                : row % group;
    const int query = is("divided-and-remainder-exchanged")  ? row % group
                      : is("queries-of-a-head-side-by-side") ? row % s.len_q
                                                             : row / group;
    const int of = is("first-head-by-all-heads") ? kv_head * s.heads + in_group
                   : is("kv-head-forgotten")     ? in_group
                   : is("heads-dealt-out")       ? in_group * s.kv_heads + kv_head
                   : is("first-head-is-kv-head") ? kv_head + in_group
                                                 : kv_head * group + in_group;
    return {of, query, keys_of(s, is("mask-by-row") ? row : query)};
  }
  Tile tile_of(const Shape& s, int block_q, int block) const {
    const int count = std::max(tiles_of(s, block_q, is("not-in-tile")), 1),
              rows = group_of(s) * s.len_q;
    const int kv_head = is("blocks-dealt-out") ? block % s.kv_heads : block / count;
    const int tile = is("blocks-dealt-out") ? block / s.kv_heads : block % count;
    const int first = is("tile-for-row") ? tile : tile * block_q;
    const int end = is("whole")                  ? first + block_q
                    : is("end-clipped-to-len-q") ? std::min(first + block_q, s.len_q)
                                                 : std::min(first + block_q, rows);
    const int last = is("keys-of-the-first-row")             ? first
                     : is("keys-of-a-row-that-is-not-there") ? first + block_q - 1
                     : is("keys-of-the-row-behind")          ? end
                                                             : end - 1;
    int most = 0;
    for (int row = first; row < end; ++row) most = std::max(most, row_of(s, kv_head, row).end_key);
    return {kv_head, first, end,
            is("all-keys-loaded") ? s.len_kv
            : is("keys-by-row")   ? keys_of(s, last)
            : is("of-any-row")    ? most
            : is("tile-right")    ? Way{}.row_of(s, kv_head, last).end_key
                                  : row_of(s, kv_head, last).end_key};
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int blocks_for(const Shape& shape, int block_q) const { return ::blocks_for(shape, block_q); }
  Row row_of(const Shape& shape, int kv_head, int row) const {
    return ::row_of(shape, kv_head, row);
  }
  Tile tile_of(const Shape& shape, int block_q, int block) const {
    return ::tile_of(shape, block_q, block);
  }
};

static const exercise::Table MISTAKES(R"(
$rows = {,of-any-row,tile-right}
group-is-kv-heads
  a group was taken to have kv_heads heads. It has heads / kv_heads
divided-and-remainder-exchanged: divided-and-remainder-exchanged $rows
  row / group was taken for the head in the group and row % group for the query. The other way round
queries-of-a-head-side-by-side: queries-of-a-head-side-by-side $rows
  the rows are all queries of one head, then those of the next: row / len_q. First come all heads of
  query 0: row % group
first-head-by-all-heads
  the group's first head is kv_head * heads. It should be kv_head * group
kv-head-forgotten
  every group was taken to begin at head 0. It begins at kv_head * group
heads-dealt-out
  a group was taken to be every kv_heads-th head. Its heads are consecutive
first-head-is-kv-head
  the group's first head is kv_head. It should be kv_head * group
mask-by-row: mask-by-row $rows
  the row was taken for the query in the mask. All rows of a query see the same keys: row / group
top-left-aligned: top-left-aligned $rows
  query i was taken to see keys up to i. It sees keys up to i + len_kv - len_q
diagonal-reversed: diagonal-reversed $rows
  query i was taken to see keys up to i + len_q - len_kv. The difference has the wrong sign
mask-forgotten: mask-forgotten $rows
  every row was taken to see all keys. Query i sees those up to i + len_kv - len_q
end-is-the-last-key: behind=0 $rows
  end_key is the last visible key. It must be the last visible key + 1
end-one-too-far: behind=2 $rows
  end_key is one too large. It should be the last key seen + 1
end-not-clamped: end-not-clamped $rows
  a query that sees nothing has a negative end_key. It should be 0
one-key-at-least: one-key-at-least $rows
  a query that sees nothing was given key 0. With more queries than keys it sees none
tiles-rounded-down: rounded-down {,not-in-tile,not-in-grid}
  the tiles were rounded down. The last rows need one, too
one-tile-too-many: one-more {,not-in-tile,not-in-grid}
  rows / block_q + 1 is one tile too many if nothing is left over
rows-of-one-head: tiles-of-one-head {,not-in-tile,not-in-grid}
  the tiles are those of len_q rows. There are group * len_q
rows-of-all-heads: of-all-heads {,not-in-tile,not-in-grid}
  the tiles are those of heads * len_q rows. Only a group shares a head of K and V
rows-of-one-query: queries {,not-in-tile,not-in-grid}
  the tiles are those of `group` rows. There are group * len_q
rows-of-all-heads: of-all-heads not-in-tile grid-of-one-kv-head
  the tiles are those of heads * len_q rows. Only a group shares a head of K and V
grid-of-one-kv-head
  the grid has the tiles of one head of K and V. There are kv_heads
grid-of-query-heads
  the grid has blocks for each head of Q. The group shares one, so that K and V are read once:
  kv_heads
blocks-dealt-out
  block % kv_heads was taken for the head of K and V. All tiles of head 0 come first: block / tiles
tile-for-row
  the number of the tile was taken for its first row. Multiply it by block_q
end-not-clipped: whole
  the last tile has rows that do not exist, and keys are loaded for them. Its end is at most group *
  len_q
end-not-clipped: whole all-keys-loaded
  the last tile has rows that do not exist. Its end is at most group * len_q
end-clipped-to-len-q
  the tile was clipped to len_q. There are group * len_q rows
keys-of-the-first-row
  a tile's end_key is that of its first row. The last one sees more
keys-of-a-row-that-is-not-there
  a tile's end_key is that of row first + block_q - 1, which the last tile does not have. Take row
  end - 1
keys-of-the-row-behind
  a tile's end_key is that of row `end`. That is the first row of the next tile: end - 1
keys-by-row
  a tile's end_key was computed from its last row as if that were a query. The query is row / group
all-keys-loaded
  every tile loads all keys: right, but slow. A key that the tile's last row does not see is not
  needed by any of its rows
)");

static void check_shape(const Shape& shape, int block_q) {
  exercise::check_output<Way, Answer>({"blocks", 0, 0}, MISTAKES, [&](const auto& way) {
    return Numbers{static_cast<double>(way.blocks_for(shape, block_q))};
  });
  const int rows = shape.heads / shape.kv_heads * shape.len_q;
  for (int kv_head = 0; kv_head < shape.kv_heads; ++kv_head)
    exercise::check_output<Way, Answer>(
        {"kv_head " + std::to_string(kv_head) + ", row", 3, 0, {"head", "query", "end_key"}},
        MISTAKES, [&](const auto& way) {
          Numbers result;
          for (int row = 0; row < rows; ++row) {
            const Row one = way.row_of(shape, kv_head, row);
            result.insert(result.end(), {double(one.head), double(one.query), double(one.end_key)});
          }
          return result;
        });
  exercise::check_output<Way, Answer>(
      {"block", 4, 0, {"kv_head", "first", "end", "end_key"}}, MISTAKES, [&](const auto& way) {
        Numbers result;
        for (int block = 0; block < Way{}.blocks_for(shape, block_q); ++block) {
          const Tile tile = way.tile_of(shape, block_q, block);
          result.insert(result.end(), {double(tile.kv_head), double(tile.first), double(tile.end),
                                       double(tile.end_key)});
        }
        return result;
      });
}

TEST_CASE("the README's: 6 heads, 2 of K and V, 3 queries, 5 keys, tiles of 4") {
  check_shape({6, 2, 3, 5}, 4);
}
TEST_CASE("8 heads, 2 of K and V, 1 query, 100 keys, tiles of 16") {
  check_shape({8, 2, 1, 100}, 16);
}
TEST_CASE("as many heads of K and V: 3, 5 queries, 9 keys, tiles of 4") {
  check_shape({3, 3, 5, 9}, 4);
}
TEST_CASE("4 heads, 1 of K and V, 2 queries, 30 keys, tiles of 4") {
  check_shape({4, 1, 2, 30}, 4);
}
TEST_CASE("8 heads, 2 of K and V, 7 queries, 4 keys, tiles of 4: some queries see nothing") {
  check_shape({8, 2, 7, 4}, 4);
}
TEST_CASE("15 heads, 3 of K and V, 2 queries, no key, tiles of 8") {
  check_shape({15, 3, 2, 0}, 8);
}
TEST_CASE("12 heads, 3 of K and V, 6 queries, 17 keys, tiles of 8") {
  check_shape({12, 3, 6, 17}, 8);
}
