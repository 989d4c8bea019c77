#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>
#include <which_tiles.hpp>

#include "exercises/support/verdict.hpp"

int Mask::first_key(int query) const { return std::max(query + diagonal - left, 0); }
int Mask::end_key(int query) const { return std::min(query + diagonal + right + 1, len_kv); }

constexpr int FAR = 1000;  // of a window's side: no limit

struct Case {
  int len_q, len_kv, left, right, q_tile;

  Mask mask() const { return {len_kv, len_kv - len_q, left, right}; }
};

// The four numbers as people write them: right as it stands here, each mistake is a change to it.
struct Way {
  enum Query { kFirst, kLast } begin = kFirst, end = kLast, clear_begin = kLast, clear_end = kFirst;
  enum Round { kDown, kUp, kOneMore, kAndOne } begin_round = kDown, end_round = kUp;
  Round clear_begin_round = kUp, clear_end_round = kDown;
  enum Last { kClipped, kWhole, kBehind, kByKeys, kLastOfAll } last = kClipped;
  bool tile_for_row = false, blocks_exchanged = false;
  bool queries_in_kv_blocks = false, keys_in_q_blocks = false;
  bool clear_from_zero = false, tail_clear = false;
  bool from_zero = false, to_the_end = false;  // all tiles on that side
  enum Clear { kInside, kNone, kAll } clear = kInside;
};

static Tiles tiles_as(const Way& way, const Case& c, int block_q, int block_kv) {
  const Mask mask = c.mask();
  if (way.blocks_exchanged) std::swap(block_q, block_kv);
  if (way.queries_in_kv_blocks) block_q = block_kv;
  if (way.keys_in_q_blocks) block_kv = block_q;
  const int first = way.tile_for_row ? c.q_tile : c.q_tile * block_q;
  int last = first + block_q - (way.last == Way::kBehind ? 0 : 1);
  if (way.last == Way::kClipped) last = std::min(last, c.len_q - 1);
  if (way.last == Way::kByKeys) last = std::min(last, c.len_kv - 1);
  if (way.last == Way::kLastOfAll) last = c.len_q - 1;
  if (way.last == Way::kBehind) last = std::min(first + block_q, c.len_q);
  const auto of = [&](Way::Query query) { return query == Way::kFirst ? first : last; };
  const auto tile = [&](int key, Way::Round round) {
    const int added = round == Way::kUp ? block_kv - 1 : round == Way::kOneMore ? block_kv : 0;
    return (key + added) / block_kv + (round == Way::kAndOne ? 1 : 0);
  };
  Tiles tiles;
  tiles.begin = way.from_zero ? 0 : tile(mask.first_key(of(way.begin)), way.begin_round);
  tiles.end = tile(way.to_the_end ? c.len_kv : mask.end_key(of(way.end)), way.end_round);
  tiles.clear_begin = tile(mask.first_key(of(way.clear_begin)), way.clear_begin_round);
  tiles.clear_end = tile(mask.end_key(of(way.clear_end)), way.clear_end_round);
  if (way.clear_from_zero) tiles.clear_begin = 0;
  if (way.tail_clear && mask.end_key(first) == c.len_kv) tiles.clear_end = tile(c.len_kv, Way::kUp);
  if (way.clear == Way::kNone) tiles.clear_end = tiles.clear_begin;
  if (way.clear == Way::kAll) tiles.clear_begin = tiles.begin, tiles.clear_end = tiles.end;
  return tiles;
}

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

static std::vector<std::pair<const char*, Way>> ways() {
  using W = Way;
  return {
      {"end-rounded-down", {.end_round = W::kDown}},
      {"begin-rounded-up", {.begin_round = W::kUp}},
      {"one-tile-too-many", {.end_round = W::kOneMore}},
      {"one-tile-too-many", {.end_round = W::kAndOne}},
      {"one-tile-too-many", {.end_round = W::kAndOne, .clear_begin_round = W::kAndOne}},
      {"clear-begins-too-late", {.clear_begin_round = W::kAndOne}},
      {"left-limit-forgotten", {.clear_from_zero = true, .from_zero = true}},
      {"tail-called-clear", {.tail_clear = true}},
      {"edge-not-masked", {.clear_begin = W::kFirst, .clear_begin_round = W::kDown}},
      {"edge-not-masked", {.clear_end = W::kLast, .clear_end_round = W::kUp}},
      {"all-tiles-visited", {.from_zero = true, .to_the_end = true}},
      {"all-tiles-visited", {.from_zero = true}},
      {"all-tiles-visited", {.to_the_end = true}},
      {"queries-exchanged", {.begin = W::kLast, .end = W::kFirst}},
      {"queries-exchanged",
       {.begin = W::kLast, .end = W::kFirst, .clear_begin = W::kFirst, .clear_end = W::kLast}},
      {"one-query-for-all", {.end = W::kFirst}},
      {"one-query-for-all", {.begin = W::kLast}},
      {"one-query-for-all", {.end = W::kFirst, .clear_begin = W::kFirst}},
      {"one-query-for-all", {.begin = W::kLast, .clear_end = W::kLast}},
      {"clear-for-one-query", {.clear_begin = W::kFirst, .clear_end = W::kLast}},
      {"clear-for-one-query", {.clear_end = W::kLast}},
      {"clear-for-one-query", {.clear_begin = W::kFirst}},
      {"clear-rounded-outwards", {.clear_begin_round = W::kDown, .clear_end_round = W::kUp}},
      {"clear-rounded-outwards", {.clear_begin_round = W::kDown}},
      {"clear-rounded-outwards", {.clear_end_round = W::kUp}},
      {"last-query-not-clipped", {.last = W::kWhole}},
      {"last-query-behind-the-tile", {.last = W::kBehind}},
      {"last-query-by-the-keys", {.last = W::kByKeys}},
      {"last-query-of-all", {.last = W::kLastOfAll}},
      {"tile-for-row", {.tile_for_row = true}},
      {"blocks-exchanged", {.blocks_exchanged = true}},
      {"blocks-exchanged", {.queries_in_kv_blocks = true}},
      {"blocks-exchanged", {.keys_in_q_blocks = true}},
      {"nothing-clear", {.clear = W::kNone}},
      {"nothing-masked", {.clear = W::kAll}},
  };
}

static const char* explanation(const std::string& name) {
  const auto is = [&](const char* other) { return name == other; };
  return is("end-rounded-down")
             ? "the end is rounded down; a tile of which one key is seen is needed"
         : is("begin-rounded-up")
             ? "the begin is rounded up; a tile of which one key is seen is needed"
         : is("one-tile-too-many")
             ? "an end that is a multiple of BLOCK_KV is rounded up to the next; add BLOCK_KV - 1"
         : is("all-tiles-visited")
             ? "tiles are visited that nobody sees: right, and slow; the mask bounds both sides"
         : is("left-limit-forgotten")
             ? "tiles begin at 0, needed and clear ones; a window has a first key too"
         : is("tail-called-clear") ? "the last tile is called clear where the keys end inside it; "
                                     "those that do not exist must be masked, too"
         : is("edge-not-masked")   ? "on one side the tiles at the edge are called clear; some of "
                                     "their keys are hidden from some query"
         : is("queries-exchanged")
             ? "the first query has the smallest first key, the last query the largest end"
         : is("one-query-for-all")
             ? "one query was asked for both limits; the others see other keys"
         : is("clear-for-one-query")
             ? "a tile is called clear that one query sees whole; each must: they all see the keys "
               "from the last query's first to the first query's end"
         : is("clear-begins-too-late")
             ? "a clear begin that is a multiple of BLOCK_KV is rounded up to the next: right, and "
               "a tile is masked in vain; add BLOCK_KV - 1"
         : is("clear-rounded-outwards") ? "a tile is called clear that lies only partly in what "
                                          "all see: round its begin up and its end down"
         : is("last-query-not-clipped")
             ? "the last query of the last tile is past the end: len_q - 1 is the last that there "
               "is; right, and tiles are masked for a query that does not exist"
         : is("last-query-behind-the-tile")
             ? "the query behind the tile was taken as its last one: - 1"
         : is("last-query-by-the-keys")
             ? "the last query was limited by len_kv; it counts queries: len_q - 1 is the last"
         : is("last-query-of-all") ? "the last query of all was asked; the last one of this tile "
                                     "is at most BLOCK_Q - 1 behind its first"
         : is("tile-for-row")     ? "q_tile was taken as a query; its first one is q_tile * BLOCK_Q"
         : is("blocks-exchanged") ? "one block was taken for the other: queries are counted in "
                                    "tiles of BLOCK_Q, keys in tiles of BLOCK_KV"
         : is("nothing-clear")    ? "no tile is clear: right, and every tile pays for a mask"
                                  : "every tile is clear: those at the edges need the mask";
}

template <int BLOCK_Q, int BLOCK_KV>
static void check_tiles(int shortest_q, int longest_q, int shortest_kv, int longest_kv,
                        const std::vector<std::pair<int, int>>& windows) {
  const std::vector<std::pair<const char*, Way>> all = ways();
  std::vector<std::string> maps(all.size());
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
          for (size_t i = 0; i < all.size(); ++i)
            maps[i] += map_of(tiles_as(all[i].second, c, BLOCK_Q, BLOCK_KV), count) + " ";
        }
  std::string message = first + "over all lengths here " + std::to_string(visited) +
                        " tiles are visited, " + std::to_string(needed) + " are needed";
  const auto add = [&](int number, const char* what) {
    if (number) message += ";\n  " + std::to_string(number) + " " + what;
  };
  add(skipped, "needed and not visited: wrong");
  add(unmasked, "called clear with a key that one of the queries does not see: wrong");
  add(outside, "visited and seen by nobody: right, but slow");
  add(masked, "masked, and all is seen: right, but slow");
  std::vector<exercise::Look> looks;
  for (size_t i = 0; i < all.size(); ++i)
    looks.push_back({all[i].first, maps[i], explanation(all[i].first)});
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
