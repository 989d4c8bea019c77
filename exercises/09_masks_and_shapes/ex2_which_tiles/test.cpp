#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>
#include <which_tiles.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Changes;

int Mask::first_key(int query) const { return std::max(query + diagonal - left, 0); }
int Mask::end_key(int query) const { return std::min(query + diagonal + right + 1, len_kv); }

constexpr int FAR = 1000;  // a window's side without a limit

struct Case {
  int len_q, len_kv, left, right, q_tile;

  Mask mask() const { return {len_kv, len_kv - len_q, left, right}; }
};

// The right four numbers, and each mistake as a change to them. "end=0": the end is that of query
// `first` (0) or `last` (1) of the tile. "end-round=1": rounded down (0), up (1), up after one key
// more (2), down and one tile more (3).
static Tiles tiles_as(const Changes& is, const Case& c, int block_q, int block_kv) {
  const Mask mask = c.mask();
  if (is("blocks-exchanged")) std::swap(block_q, block_kv);
  if (is("queries-in-kv-blocks")) block_q = block_kv;
  if (is("keys-in-q-blocks")) block_kv = block_q;
  const int first = is("tile-for-row") ? c.q_tile : c.q_tile * block_q;
  const int last = is("last-query-behind-the-tile") ? std::min(first + block_q, c.len_q)
                   : is("last-query-of-all")        ? c.len_q - 1
                   : is("last-query-not-clipped")   ? first + block_q - 1
                   : is("last-query-by-the-keys")   ? std::min(first + block_q, c.len_kv) - 1
                                                    : std::min(first + block_q, c.len_q) - 1;
  const auto rounded = [&](int key, int round) {
    const int added = round == 1 ? block_kv - 1 : round == 2 ? block_kv : 0;
    return (key + added) / block_kv + (round == 3);
  };
  const auto query = [&](const char* name, int right) {
    return is.integer(name, right) ? last : first;
  };
  const auto from = [&](const std::string& name, int of, int round) {
    return rounded(mask.first_key(query(name.c_str(), of)), is.integer(name + "-round", round));
  };
  const auto to = [&](const std::string& name, int of, int round) {
    return rounded(mask.end_key(query(name.c_str(), of)), is.integer(name + "-round", round));
  };
  Tiles tiles;
  tiles.begin = is("from-zero") ? 0 : from("begin", 0, 0);
  tiles.end = is("to-the-end") ? rounded(c.len_kv, 1) : to("end", 1, 1);
  tiles.clear_begin = is("clear-from-zero") ? 0 : from("clear-begin", 1, 1);
  tiles.clear_end = to("clear-end", 0, 0);
  if (is("tail-called-clear") && mask.end_key(first) == c.len_kv)
    tiles.clear_end = rounded(c.len_kv, 1);
  if (is("nothing-clear")) tiles.clear_end = tiles.clear_begin;
  if (is("nothing-masked")) tiles.clear_begin = tiles.begin, tiles.clear_end = tiles.end;
  return tiles;
}

static const exercise::Table MISTAKES(R"(
end-rounded-down: end-round=0
  the end is rounded down. A tile of which one key is seen is needed
begin-rounded-up: begin-round=1
  the begin is rounded up. A tile of which one key is seen is needed
one-tile-too-many: end-round={2,3}; end-round=3 clear-begin-round=3
  an end that is a multiple of BLOCK_KV is rounded up to the next. Add BLOCK_KV - 1
clear-begins-too-late: clear-begin-round=3
  a clear begin that is a multiple of BLOCK_KV is rounded up to the next: right, but a tile is
  masked in vain. Add BLOCK_KV - 1
left-limit-forgotten: clear-from-zero from-zero
  tiles begin at 0, needed and clear ones. A window has a first key too
tail-called-clear
  the last tile is called clear where the keys end inside it. Those that do not exist must be
  masked, too
edge-not-masked: clear-begin=0 clear-begin-round=0; clear-end=1 clear-end-round=1
  on one side the tiles at the edge are called clear. Some of their keys are hidden from some query
all-tiles-visited: {,from-zero }to-the-end; from-zero
  tiles are visited that no query sees: right, but slow. The mask bounds both sides
queries-exchanged: begin=1 end=0 {,clear-begin=0 clear-end=1}
  the first query has the smallest first key, the last query the largest end
one-query-for-all: end=0 {,clear-begin=0}; begin=1 {,clear-end=1}
  one query was used for both limits. The others see other keys
clear-for-one-query: {,clear-begin=0 }clear-end=1; clear-begin=0
  a tile is called clear that one query sees whole. Each must: they all see the keys from the last
  query's first to the first query's end
clear-rounded-outwards: {,clear-begin-round=0 }clear-end-round=1; clear-begin-round=0
  a tile is called clear of which only a part is seen by all queries: round its begin up and its
  end down
last-query-not-clipped
  the last query of the last tile is past the end: len_q - 1 is the last that there is. The result
  is right, but tiles are masked for a query that does not exist
last-query-behind-the-tile
  the query after the tile was taken as its last one: - 1
last-query-by-the-keys
  the last query was limited by len_kv. It counts queries, so len_q - 1 is the last
last-query-of-all
  the last query of all was used. The last one of this tile is at most BLOCK_Q - 1 after its first
tile-for-row
  q_tile was taken as a query. Its first one is q_tile * BLOCK_Q
blocks-exchanged: blocks-exchanged; queries-in-kv-blocks; keys-in-q-blocks
  one block was taken for the other: queries are counted in tiles of BLOCK_Q, keys in tiles of
  BLOCK_KV
nothing-clear
  no tile is clear: right, but then every tile needs a mask
nothing-masked
  every tile is clear: those at the edges need the mask
)");

// A letter for each tile of keys, and those that do not exist. An empty range may be anywhere.
static std::string map_of(Tiles tiles, int count) {
  if (tiles.end <= tiles.begin) tiles.begin = tiles.end = 0;
  if (tiles.clear_end <= tiles.clear_begin) tiles.clear_begin = tiles.clear_end = 0;
  std::string map;
  for (int tile = std::max(std::min({0, tiles.begin, tiles.clear_begin}), -3);
       tile < std::max({count, std::min(tiles.end, count + 3)}); ++tile) {
    const bool clear = tile >= tiles.clear_begin && tile < tiles.clear_end;
    map += clear ? 'c' : tile >= tiles.begin && tile < tiles.end ? 'm' : '.';
  }
  return map;
}

// Every query is asked about every key.
static std::string right_map(const Case& c, int block_q, int block_kv, int count) {
  const Mask mask = c.mask();
  std::string map;
  for (int tile = 0; tile < count; ++tile) {
    int seen = 0, asked = 0;
    for (int query = c.q_tile * block_q; query < std::min((c.q_tile + 1) * block_q, c.len_q);
         ++query) {
      for (int key = tile * block_kv; key < (tile + 1) * block_kv; ++key) {
        const int distance = key - (query + c.len_kv - c.len_q);
        seen += key < c.len_kv && -distance <= mask.left && distance <= mask.right;
        ++asked;
      }
    }
    map += seen == 0 ? '.' : seen == asked ? 'c' : 'm';
  }
  return map;
}

static std::string words(const Case& c, int block_q, int block_kv) {
  const auto side = [](int keys) { return keys == FAR ? "no limit" : std::to_string(keys); };
  return "queries " + std::to_string(c.q_tile * block_q) + " to " +
         std::to_string(std::min((c.q_tile + 1) * block_q, c.len_q) - 1) + " of " +
         std::to_string(c.len_q) + ", " + std::to_string(c.len_kv) + " keys, left " + side(c.left) +
         ", right " + side(c.right) + ", BLOCK_Q " + std::to_string(block_q) + ", BLOCK_KV " +
         std::to_string(block_kv);
}

template <int BLOCK_Q, int BLOCK_KV>
static void check_tiles(int shortest_q, int longest_q, int shortest_kv, int longest_kv,
                        const std::vector<std::pair<int, int>>& windows) {
  std::vector<exercise::Look> looks;
  for (const exercise::Row& row : MISTAKES) looks.push_back({row.name, "", row.explanation});
  std::string shown, first;
  int visited = 0, needed = 0, skipped = 0, unmasked = 0, masked = 0, outside = 0;
  for (const auto& [left, right] : windows)
    for (int len_q = shortest_q; len_q <= longest_q; ++len_q)
      for (int len_kv = shortest_kv; len_kv <= longest_kv; ++len_kv)
        for (int q_tile = 0; q_tile * BLOCK_Q < len_q; ++q_tile) {
          const Case c{len_q, len_kv, left, right, q_tile};
          const int count = (len_kv + BLOCK_KV - 1) / BLOCK_KV;
          const std::string right_one = right_map(c, BLOCK_Q, BLOCK_KV, count);
          const std::string got =
              map_of(tiles_of<BLOCK_Q, BLOCK_KV>(c.mask(), len_q, q_tile), count);
          if (got != right_one && first.empty()) {
            first = words(c, BLOCK_Q, BLOCK_KV) + ":\n  tiles     0 …\n  got       " + got +
                    "\n  expected  " + right_one + "    (c: clear, m: masked, .: skipped)\n";
          }
          for (size_t i = 0; i < std::max(got.size(), right_one.size()); ++i) {
            const char is = i < got.size() ? got[i] : '.';
            const char should = i < right_one.size() ? right_one[i] : '.';
            visited += is != '.';
            needed += should != '.';
            outside += is != '.' && should == '.';
            skipped += is == '.' && should != '.';
            unmasked += is == 'c' && should == 'm';
            masked += is == 'm' && should == 'c';
          }
          shown += got + " ";
          auto look = looks.begin();
          for (const exercise::Row& row : MISTAKES)
            (look++)->shown += map_of(tiles_as(row.changes, c, BLOCK_Q, BLOCK_KV), count) + " ";
        }
  std::string message = first + "over all lengths here " + std::to_string(visited) +
                        " tiles are visited, " + std::to_string(needed) + " are needed";
  const auto add = [&](int number, const char* what) {
    if (number) message += ";\n  " + std::to_string(number) + " " + what;
  };
  add(skipped, "needed and not visited: wrong");
  add(unmasked, "called clear with a key that one of the queries does not see: wrong");
  add(outside, "visited and seen by no query: right, but slow");
  add(masked, "masked, and all is seen: right, but slow");
  exercise::check_shown(first.empty(), message, shown, looks);
}

TEST_CASE("no mask") { check_tiles<4, 2>(1, 9, 0, 9, {{FAR, FAR}}); }
TEST_CASE("causal, as many keys as queries, whole tiles") {
  check_tiles<4, 2>(16, 16, 16, 16, {{FAR, 0}});
}
TEST_CASE("causal, all lengths") { check_tiles<4, 2>(1, 9, 0, 12, {{FAR, 0}}); }
TEST_CASE("windows, all lengths") {
  check_tiles<4, 2>(1, 9, 0, 12, {{0, 0}, {2, 0}, {5, 0}, {3, 2}, {0, 4}, {7, FAR}});
}
TEST_CASE("tiles of keys larger than those of queries") {
  check_tiles<2, 4>(1, 9, 0, 12, {{FAR, FAR}, {FAR, 0}, {5, 0}, {6, 3}});
}
