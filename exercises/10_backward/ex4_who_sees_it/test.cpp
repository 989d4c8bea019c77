#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>
#include <who_sees_it.hpp>

#include "exercises/support/verdict.hpp"

struct Case {
  int kv_tile, len_q, len_kv, group;
  bool causal;
};

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Diagonal { kRight, kZero, kNegated, kStrict } diagonal = kRight;
  enum Key { kFirst, kLast, kBehind } begin_key = kFirst, clear_key = kLast;
  enum Round { kDown, kUp, kLess, kAndOne } begin_round = kDown, clear_round = kUp;
  bool begin_clamped = true, clear_clamped = true;
  enum Clear {
    kByKey,
    kOneTile,
    kRatio,
    kNone,
    kAll,
    kTailForgotten,
    kTailLater,
    kTailClipped
  } clear = kByKey;
  enum Count { kHeads, kOneHead, kFromZero, kNoGroup, kClearOnly } count = kHeads;
  enum Tiles { kQueries, kWhole, kKeys } tiles = kQueries;
  enum Causal { kAsked, kAlways, kNever } causal = kAsked;
  bool blocks_exchanged = false, tile_for_key = false, from_zero = false;
};

static Walk walk_as(const Way& way, const Case& c, int block_q, int block_kv) {
  if (way.blocks_exchanged) std::swap(block_q, block_kv);
  const int to_diagonal = way.diagonal == Way::kZero      ? 0
                          : way.diagonal == Way::kNegated ? c.len_q - c.len_kv
                          : way.diagonal == Way::kStrict  ? c.len_kv - c.len_q - 1
                                                          : c.len_kv - c.len_q;
  const bool causal = way.causal == Way::kAlways || (c.causal && way.causal == Way::kAsked);
  const auto tile_from = [&](Way::Key key, Way::Round round, bool clamped) {
    const int first = way.tile_for_key ? c.kv_tile : c.kv_tile * block_kv;
    const int end =
        way.clear == Way::kTailClipped ? std::min(first + block_kv, c.len_kv) : first + block_kv;
    const int of_key = key == Way::kFirst ? first : key == Way::kLast ? end - 1 : end;
    const int query = of_key - to_diagonal;
    const int from = clamped ? std::max(query, 0) : query;
    return (from + (round == Way::kUp ? block_q - 1 : 0)) / block_q + (round == Way::kAndOne ? 1
                                                                       : round == Way::kLess ? -1
                                                                                             : 0);
  };
  const int q_tiles = way.tiles == Way::kWhole  ? c.len_q / block_q
                      : way.tiles == Way::kKeys ? (c.len_kv + block_kv - 1) / block_kv
                                                : (c.len_q + block_q - 1) / block_q;
  Walk walk;
  walk.begin = causal ? tile_from(way.begin_key, way.begin_round, way.begin_clamped) : 0;
  if (way.begin_round == Way::kLess) walk.begin = std::max(walk.begin, 0);
  if (way.from_zero) walk.begin = 0;
  walk.clear_begin = causal ? tile_from(way.clear_key, way.clear_round, way.clear_clamped) : 0;
  if (way.clear == Way::kOneTile && causal) walk.clear_begin = walk.begin + 1;
  if (way.clear == Way::kRatio && causal)
    walk.clear_begin = walk.begin + (block_kv + block_q - 1) / block_q;
  const int tail = (c.kv_tile + 1) * block_kv + (way.clear == Way::kTailLater ? -1 : 0);
  if (way.clear != Way::kTailForgotten && way.clear != Way::kTailClipped && tail > c.len_kv)
    walk.clear_begin = q_tiles;
  if (way.clear == Way::kNone) walk.clear_begin = q_tiles;
  if (way.clear == Way::kAll) walk.clear_begin = walk.begin;
  const int visited = q_tiles - (way.count == Way::kFromZero    ? 0
                                 : way.count == Way::kClearOnly ? walk.clear_begin
                                                                : walk.begin);
  walk.count = visited * (way.count == Way::kOneHead ? 1 : c.group);
  return walk;
}

using Wrong = exercise::Wrong<Way>;

static const std::vector<Wrong>& wrong_ways() {
  using W = Way;
  static const std::vector<Wrong> wrong = {
      {"top-left-aligned",
       "query i was taken to see keys up to i; up to i + len_kv - len_q",
       {{.diagonal = W::kZero}}},
      {"diagonal-reversed",
       "the diagonal has the other sign: query i sees keys up to i + len_kv - len_q, so key j is "
       "seen from query j - (len_kv - len_q) on",
       {{.diagonal = W::kNegated}}},
      {"diagonal-hidden",
       "query i was taken not to see key i + len_kv - len_q; it is the last that it sees",
       {{.diagonal = W::kStrict}}},
      {"begin-not-clamped",
       "where every query sees these keys the first one is query 0, not a negative one: clamp "
       "before dividing",
       {{.begin_clamped = false}, {.begin_clamped = false, .clear_clamped = false}}},
      {"starts-one-tile-late",
       "begin is rounded up; a tile whose last query sees one key is needed",
       {{.begin_round = W::kUp}, {.begin_round = W::kAndOne}}},
      {"starts-one-tile-early",
       "begin is one tile too early: right, and slow, its P is all 0",
       {{.begin_round = W::kLess}}},
      {"all-tiles-visited",
       "tiles of queries are visited that see none of these keys: right, and slow",
       {{.from_zero = true}, {.causal = W::kNever}}},
      {"begin-by-the-last-key",
       "begin was asked of the last key of the tile; the first key is seen earlier",
       {{.begin_key = W::kLast}, {.begin_key = W::kBehind}}},
      {"only-the-first-tile-masked",
       "only the tile at begin is masked; with BLOCK_KV above BLOCK_Q, or a diagonal that is no "
       "multiple of it, the edge runs through more",
       {{.clear = W::kOneTile}}},
      {"masked-by-the-ratio",
       "BLOCK_KV / BLOCK_Q tiles are masked; if the diagonal does not begin where a tile does, it "
       "runs through one more",
       {{.clear = W::kRatio}}},
      {"clear-by-the-first-key",
       "clear_begin was asked of the first key of the tile; all of its keys must be seen: ask the "
       "last",
       {{.clear_key = W::kFirst}}},
      {"clear-by-the-key-behind",
       "clear_begin was asked of the key behind the tile; its last is (kv_tile + 1) * BLOCK_KV - 1",
       {{.clear_key = W::kBehind}}},
      {"clear-rounded-down",
       "clear_begin is rounded down; in a clear tile the first query sees all keys: round up",
       {{.clear_round = W::kDown}}},
      {"clear-one-tile-late",
       "where the first query of a tile is just the first that sees all keys, the tile is called "
       "masked: right, and slow; round up by adding BLOCK_Q - 1",
       {{.clear_round = W::kAndOne}}},
      {"nothing-clear",
       "no tile is clear: right, and every tile pays for a mask",
       {{.clear = W::kNone}}},
      {"nothing-masked",
       "every tile is clear; those at the edge need the mask",
       {{.clear = W::kAll}}},
      {"tail-called-clear",
       "the keys end inside this tile, and tiles of queries are called clear; those that do not "
       "exist must be masked",
       {{.clear = W::kTailForgotten}, {.clear = W::kTailClipped}}},
      {"tail-one-too-late",
       "a tile that lacks one key counts as full: (kv_tile + 1) * BLOCK_KV > len_kv",
       {{.clear = W::kTailLater}}},
      {"count-of-one-head",
       "count is that of one head; `group` heads of queries share the keys, and the block visits "
       "them all",
       {{.count = W::kOneHead}}},
      {"skipped-ones-counted",
       "count has the skipped tiles in it, too: those from begin on, times group",
       {{.count = W::kFromZero}}},
      {"only-clear-ones-counted",
       "count has the clear tiles alone; masked ones are visited as well",
       {{.count = W::kClearOnly}}},
      {"last-tile-forgotten",
       "len_q / BLOCK_Q leaves out a last tile that is not full: round up",
       {{.tiles = W::kWhole}}},
      {"tiles-of-keys-counted",
       "the tiles of keys were counted; the block visits tiles of queries",
       {{.tiles = W::kKeys}}},
      {"always-causal",
       "`causal` was not asked; if it is false every query sees every key",
       {{.causal = W::kAlways}}},
      {"blocks-exchanged",
       "one block was taken for the other: keys are counted in tiles of BLOCK_KV, queries in tiles "
       "of BLOCK_Q",
       {{.blocks_exchanged = true}}},
      {"tile-for-key",
       "kv_tile was taken as a key; the first one is kv_tile * BLOCK_KV",
       {{.tile_for_key = true}}},
  };
  return wrong;
}

// A letter for each tile of queries, and those that do not exist; then how many are visited.
static std::string map_of(const Walk& walk, int q_tiles, int group) {
  std::string map;
  for (int tile = std::clamp(walk.begin, -3, 0); tile < q_tiles; ++tile)
    map += tile < walk.begin ? '.' : tile < walk.clear_begin ? 'm' : 'c';
  return map + ", count " + std::to_string(walk.count) + " of " + std::to_string(group) +
         (group == 1 ? " head" : " heads");
}

// Every query is asked about every key.
static std::string right_map(const Case& c, int block_q, int block_kv, int q_tiles) {
  std::string map;
  int visited = 0;
  for (int tile = 0; tile < q_tiles; ++tile) {
    int seen = 0, asked = 0;
    for (int query = tile * block_q; query < std::min((tile + 1) * block_q, c.len_q); ++query) {
      for (int key = c.kv_tile * block_kv; key < (c.kv_tile + 1) * block_kv; ++key) {
        seen += key < c.len_kv && (!c.causal || key <= query + c.len_kv - c.len_q);
        ++asked;
      }
    }
    map += seen == 0 ? '.' : seen == asked ? 'c' : 'm';
    visited += seen > 0;
  }
  return map + ", count " + std::to_string(visited * c.group) + " of " + std::to_string(c.group) +
         (c.group == 1 ? " head" : " heads");
}

template <int BLOCK_Q, int BLOCK_KV>
static void check_walks(int shortest_q, int longest_q, int shortest_kv, int longest_kv, bool causal,
                        int group = 1) {
  std::string shown, first;
  bool right = true;
  std::vector<exercise::Look> looks;
  for (const Wrong& wrong : wrong_ways())
    for (size_t i = 0; i < wrong.ways.size(); ++i)
      looks.push_back({wrong.name, "", wrong.explanation});
  for (int len_q = shortest_q; len_q <= longest_q; ++len_q)
    for (int len_kv = shortest_kv; len_kv <= longest_kv; ++len_kv)
      for (int kv_tile = 0; kv_tile * BLOCK_KV < len_kv; ++kv_tile) {
        const Case c{kv_tile, len_q, len_kv, group, causal};
        const int q_tiles = (len_q + BLOCK_Q - 1) / BLOCK_Q;
        const auto map = [&](const Walk& walk) { return map_of(walk, q_tiles, group); };
        const std::string got =
            map(walk_of<BLOCK_Q, BLOCK_KV>(kv_tile, len_q, len_kv, group, causal));
        const std::string expected = right_map(c, BLOCK_Q, BLOCK_KV, q_tiles);
        if (got != expected && right) {
          right = false;
          first = std::string(causal ? "causal, " : "not causal, ") + std::to_string(len_q) +
                  " queries, " + std::to_string(len_kv) + " keys, BLOCK_Q " +
                  std::to_string(BLOCK_Q) + ", BLOCK_KV " + std::to_string(BLOCK_KV) + ", keys " +
                  std::to_string(kv_tile * BLOCK_KV) + " to " +
                  std::to_string(std::min((kv_tile + 1) * BLOCK_KV, len_kv) - 1) +
                  ":\n  tiles     0 …\n  got       " + got + "\n  expected  " + expected +
                  "\n  (c: clear, m: masked, .: skipped)";
        }
        shown += got + "\n";
        size_t next = 0;
        for (const Wrong& wrong : wrong_ways())
          for (const Way& way : wrong.ways)
            looks[next++].shown += map(walk_as(way, c, BLOCK_Q, BLOCK_KV)) + "\n";
      }
  exercise::check_shown(right, first, shown, looks);
}

TEST_CASE("not causal") { check_walks<2, 4>(4, 8, 4, 8, false); }
TEST_CASE("causal, the README's 16 queries and keys") { check_walks<2, 4>(16, 16, 16, 16, true); }
TEST_CASE("causal, the other way: 4 queries, 2 keys") { check_walks<4, 2>(16, 16, 16, 16, true); }
TEST_CASE("as many queries as keys, any number") { check_walks<3, 3>(9, 9, 9, 9, true); }
TEST_CASE("more keys than queries") { check_walks<2, 4>(4, 6, 8, 17, true); }
TEST_CASE("more queries than keys") { check_walks<2, 3>(7, 15, 1, 7, true); }
TEST_CASE("heads that share keys") { check_walks<4, 4>(5, 11, 5, 11, true, 3); }
TEST_CASE("every length") {
  check_walks<4, 6>(1, 20, 1, 20, true, 2);
  check_walks<5, 3>(1, 20, 1, 20, true);
  check_walks<5, 3>(1, 12, 1, 12, false, 4);
}
