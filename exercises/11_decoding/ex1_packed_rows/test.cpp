#include <doctest/doctest.h>

#include <algorithm>
#include <packed_rows.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The functions as people write them: right as they stand here, each mistake is a change to them.
struct Way {
  bool group_is_kv_heads = false;
  enum Order { kHeadsOfAQuery, kExchanged, kQueriesOfAHead } order = kHeadsOfAQuery;
  enum Head { kInGroup, kByHeads, kWithoutKvHead, kStrided, kAdded } head = kInGroup;
  enum Mask { kByQuery, kByRow, kTopLeft, kReversed, kAll } mask = kByQuery;
  int behind = 1;  // what is added to the last key
  bool clamped = true, clamped_to_1 = false;
  enum Tiles {
    kOfGroup,
    kRoundedDown,
    kOneMore,
    kOfOneHead,
    kOfAllHeads,
    kQueries
  } tiles = kOfGroup;
  bool tiles_in_grid = true, tiles_in_tile = true;  // where the mistake is
  enum Grid { kTilesInside, kHeadsInside } grid = kTilesInside;
  bool of_one_head = false, of_query_heads = false;  // of the grid
  enum End { kClipped, kWhole, kToLenQ } end = kClipped;
  enum Needs {
    kLastRow,
    kFirstRow,
    kWholeTile,
    kAllKeys,
    kRowForQuery,
    kRowBehind
  } needs = kLastRow;
  bool first_in_tiles = false;

  int group_of(const Shape& s) const {
    return group_is_kv_heads ? s.kv_heads : s.heads / s.kv_heads;
  }
  int tiles_of(const Shape& s, int block_q, bool mistaken) const {
    const Tiles tiles = mistaken ? this->tiles : kOfGroup;
    const int rows = tiles == kOfOneHead    ? s.len_q
                     : tiles == kOfAllHeads ? s.heads * s.len_q
                     : tiles == kQueries    ? group_of(s)
                                            : group_of(s) * s.len_q;
    return tiles == kRoundedDown ? rows / block_q
           : tiles == kOneMore   ? rows / block_q + 1
                                 : (rows + block_q - 1) / block_q;
  }
  int blocks_for(const Shape& s, int block_q) const {
    return tiles_of(s, block_q, tiles_in_grid) * (of_one_head      ? 1
                                                  : of_query_heads ? s.heads
                                                                   : s.kv_heads);
  }
  int keys_of(const Shape& s, int query) const {
    const int diagonal = mask == kTopLeft    ? 0
                         : mask == kReversed ? s.len_q - s.len_kv
                                             : s.len_kv - s.len_q;
    const int end = mask == kAll ? s.len_kv : query + diagonal + behind;
    return clamped ? std::max(end, clamped_to_1 ? 1 : 0) : end;
  }
  Row row_of(const Shape& s, int kv_head, int row) const {
    const int group = group_of(s);
    const int in_group = order == kExchanged        ? row / group
                         : order == kQueriesOfAHead ? row / s.len_q
                                                    : row % group;
    const int query = order == kExchanged        ? row % group
                      : order == kQueriesOfAHead ? row % s.len_q
                                                 : row / group;
    const int of = head == kByHeads         ? kv_head * s.heads + in_group
                   : head == kWithoutKvHead ? in_group
                   : head == kStrided       ? in_group * s.kv_heads + kv_head
                   : head == kAdded         ? kv_head + in_group
                                            : kv_head * group + in_group;
    return {of, query, keys_of(s, mask == kByRow ? row : query)};
  }
  Tile tile_of(const Shape& s, int block_q, int block) const {
    const int count = std::max(tiles_of(s, block_q, tiles_in_tile), 1),
              rows = group_of(s) * s.len_q;
    const int kv_head = grid == kHeadsInside ? block % s.kv_heads : block / count;
    const int tile = grid == kHeadsInside ? block / s.kv_heads : block % count;
    const int first = first_in_tiles ? tile : tile * block_q;
    const int end = this->end == kWhole    ? first + block_q
                    : this->end == kToLenQ ? std::min(first + block_q, s.len_q)
                                           : std::min(first + block_q, rows);
    const int last = needs == kFirstRow    ? first
                     : needs == kWholeTile ? first + block_q - 1
                     : needs == kRowBehind ? end
                                           : end - 1;
    return {kv_head, first, end,
            needs == kAllKeys       ? s.len_kv
            : needs == kRowForQuery ? keys_of(s, last)
                                    : row_of(s, kv_head, last).end_key};
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  int blocks_for(const Shape& shape, int block_q) const { return ::blocks_for(shape, block_q); }
  Row row_of(const Shape& shape, int kv_head, int row) const {
    return ::row_of(shape, kv_head, row);
  }
  Tile tile_of(const Shape& shape, int block_q, int block) const {
    return ::tile_of(shape, block_q, block);
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const tiles_rounded_down =
      "the tiles were rounded down; the last rows need one, too";
  static const char* const one_tile_too_many =
      "rows / block_q + 1 is one tile too many if nothing is left over";
  static const char* const rows_of_one_head =
      "the tiles are those of len_q rows; there are group * len_q";
  static const char* const rows_of_all_heads =
      "the tiles are those of heads * len_q rows; only a group shares a head of K and V";
  static const char* const rows_of_one_query =
      "the tiles are those of `group` rows; there are group * len_q";
  static const std::vector<Known> known = {
      {"group-is-kv-heads",
       {.group_is_kv_heads = true},
       "a group was taken to have kv_heads heads; heads / kv_heads"},
      {"divided-and-remainder-exchanged",
       {.order = W::kExchanged},
       "row / group was taken for the head in the group and row % group for the query; the other "
       "way round"},
      {"queries-of-a-head-side-by-side",
       {.order = W::kQueriesOfAHead},
       "the rows are all queries of one head, then those of the next: row / len_q; first come all "
       "heads of query 0: row % group"},
      {"first-head-by-all-heads",
       {.head = W::kByHeads},
       "the group's first head is kv_head * heads; kv_head * group"},
      {"kv-head-forgotten",
       {.head = W::kWithoutKvHead},
       "every group was taken to begin at head 0; at kv_head * group"},
      {"heads-dealt-out",
       {.head = W::kStrided},
       "a group was taken to be every kv_heads-th head; its heads are consecutive"},
      {"first-head-is-kv-head",
       {.head = W::kAdded},
       "the group's first head is kv_head; kv_head * group"},
      {"mask-by-row",
       {.mask = W::kByRow},
       "the row was taken for the query in the mask; all rows of a query see the same keys: row / "
       "group"},
      {"top-left-aligned",
       {.mask = W::kTopLeft},
       "query i was taken to see keys up to i; up to i + len_kv - len_q"},
      {"diagonal-reversed",
       {.mask = W::kReversed},
       "query i was taken to see keys up to i + len_q - len_kv; the sign"},
      {"mask-forgotten",
       {.mask = W::kAll},
       "every row was taken to see all keys; query i sees those up to i + len_kv - len_q"},
      {"end-is-the-last-key",
       {.behind = 0},
       "end_key is the last key that is seen; it is the one behind it"},
      {"end-one-too-far", {.behind = 2}, "end_key is one too large; the last key seen, + 1"},
      {"end-not-clamped",
       {.clamped = false},
       "a query that sees nothing has a negative end_key; 0"},
      {"one-key-at-least",
       {.clamped_to_1 = true},
       "a query that sees nothing was given key 0; with more queries than keys it sees none"},
      {"tiles-rounded-down", {.tiles = W::kRoundedDown}, tiles_rounded_down},
      {"tiles-rounded-down",
       {.tiles = W::kRoundedDown, .tiles_in_tile = false},
       tiles_rounded_down},
      {"tiles-rounded-down",
       {.tiles = W::kRoundedDown, .tiles_in_grid = false},
       tiles_rounded_down},
      {"one-tile-too-many", {.tiles = W::kOneMore}, one_tile_too_many},
      {"one-tile-too-many", {.tiles = W::kOneMore, .tiles_in_tile = false}, one_tile_too_many},
      {"one-tile-too-many", {.tiles = W::kOneMore, .tiles_in_grid = false}, one_tile_too_many},
      {"rows-of-one-head", {.tiles = W::kOfOneHead}, rows_of_one_head},
      {"rows-of-one-head", {.tiles = W::kOfOneHead, .tiles_in_tile = false}, rows_of_one_head},
      {"rows-of-one-head", {.tiles = W::kOfOneHead, .tiles_in_grid = false}, rows_of_one_head},
      {"rows-of-all-heads", {.tiles = W::kOfAllHeads}, rows_of_all_heads},
      {"rows-of-all-heads", {.tiles = W::kOfAllHeads, .tiles_in_tile = false}, rows_of_all_heads},
      {"rows-of-all-heads", {.tiles = W::kOfAllHeads, .tiles_in_grid = false}, rows_of_all_heads},
      {"rows-of-one-query", {.tiles = W::kQueries}, rows_of_one_query},
      {"rows-of-one-query", {.tiles = W::kQueries, .tiles_in_tile = false}, rows_of_one_query},
      {"rows-of-one-query", {.tiles = W::kQueries, .tiles_in_grid = false}, rows_of_one_query},
      {"rows-of-all-heads",
       {.tiles = W::kOfAllHeads, .tiles_in_tile = false, .of_one_head = true},
       rows_of_all_heads},
      {"grid-of-one-kv-head",
       {.of_one_head = true},
       "the grid has the tiles of one head of K and V; there are kv_heads"},
      {"grid-of-query-heads",
       {.of_query_heads = true},
       "the grid has blocks for each head of Q; the group shares one, so that K and V are read "
       "once: kv_heads"},
      {"blocks-dealt-out",
       {.grid = W::kHeadsInside},
       "block % kv_heads was taken for the head of K and V; all tiles of head 0 come first: block "
       "/ tiles"},
      {"tile-for-row",
       {.first_in_tiles = true},
       "the number of the tile was taken for its first row; times block_q"},
      {"end-not-clipped",
       {.end = W::kWhole},
       "the last tile has rows that do not exist, and keys are loaded for them; its end is at most "
       "group * len_q"},
      {"end-not-clipped",
       {.end = W::kWhole, .needs = W::kAllKeys},
       "the last tile has rows that do not exist; its end is at most group * len_q"},
      {"end-clipped-to-len-q",
       {.end = W::kToLenQ},
       "the tile was clipped to len_q; there are group * len_q rows"},
      {"keys-of-the-first-row",
       {.needs = W::kFirstRow},
       "a tile's end_key is that of its first row; the last one sees more"},
      {"keys-of-a-row-that-is-not-there",
       {.needs = W::kWholeTile},
       "a tile's end_key is that of row first + block_q - 1, which the last tile does not have; "
       "row end - 1"},
      {"keys-of-the-row-behind",
       {.needs = W::kRowBehind},
       "a tile's end_key is that of row `end`; that is the first row of the next tile: end - 1"},
      {"keys-by-row",
       {.needs = W::kRowForQuery},
       "a tile's end_key was computed from its last row as if that were a query; row / group"},
      {"all-keys-loaded",
       {.needs = W::kAllKeys},
       "every tile loads all keys: right, and slow; what its last row does not see nobody does"},
  };
  return known;
}

// run(way) for what people write and for the answer.
template <class Run>
static void check_numbers(const char* name, const std::vector<std::string>& labels, Run run) {
  const auto mistakes = exercise::mistakes(all_known(), [&](const Way& way) { return run(way); });
  exercise::check_output({name, static_cast<int>(labels.size()), 0, labels}, run(Answer{}),
                         run(Way{}), mistakes);
}

static void check_shape(const Shape& shape, int block_q) {
  check_numbers("blocks", {}, [&](const auto& way) {
    return Numbers{static_cast<double>(way.blocks_for(shape, block_q))};
  });
  const int rows = shape.heads / shape.kv_heads * shape.len_q;
  for (int kv_head = 0; kv_head < shape.kv_heads; ++kv_head)
    check_numbers(
        kv_head == 0   ? "kv_head 0, row"
        : kv_head == 1 ? "kv_head 1, row"
                       : "kv_head 2, row",
        {"head", "query", "end_key"}, [&](const auto& way) {
          Numbers result;
          for (int row = 0; row < rows; ++row) {
            const Row one = way.row_of(shape, kv_head, row);
            result.insert(result.end(), {double(one.head), double(one.query), double(one.end_key)});
          }
          return result;
        });
  check_numbers("block", {"kv_head", "first", "end", "end_key"}, [&](const auto& way) {
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
