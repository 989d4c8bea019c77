#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>
#include <who_sees_it.hpp>

#include "exercises/support/verdict.hpp"

using exercise::Changes;

struct Case {
  int kv_tile, len_q, len_kv, group;
  bool causal;
};

// The right answer, and each mistake as a change to it.
static Walk walk_as(const Changes& is, const Case& c, int block_q, int block_kv) {
  if (is("blocks-exchanged")) std::swap(block_q, block_kv);
  const int to_diagonal = is("top-left-aligned")    ? 0
                          : is("diagonal-reversed") ? c.len_q - c.len_kv
                          : is("diagonal-hidden")   ? c.len_kv - c.len_q - 1
                                                    : c.len_kv - c.len_q;
  const bool causal = is("always-causal") || (c.causal && !is("never"));
  const int first = is("tile-for-key") ? c.kv_tile : c.kv_tile * block_kv;
  const int end = is("tail-clipped") ? std::min(first + block_kv, c.len_kv) : first + block_kv;
  // The tile of the query on the diagonal at this key.
  const auto tile_from = [&](int key, bool up, bool clamped) {
    const int query = clamped ? std::max(key - to_diagonal, 0) : key - to_diagonal;
    return (query + (up ? block_q - 1 : 0)) / block_q;
  };
  const int q_tiles = is("last-tile-forgotten")     ? c.len_q / block_q
                      : is("tiles-of-keys-counted") ? (c.len_kv + block_kv - 1) / block_kv
                                                    : (c.len_q + block_q - 1) / block_q;
  Walk walk{0, 0, 0};
  if (causal) {
    const int begin_key = is("begin-key-last") ? end - 1 : is("begin-key-behind") ? end : first;
    const int clear_key = is("clear-by-the-first-key")    ? first
                          : is("clear-by-the-key-behind") ? end
                                                          : end - 1;
    walk.begin = tile_from(begin_key, is("begin-round-up"), !is("begin-not-clamped")) +
                 is("begin-round-and-one");
    if (is("starts-one-tile-early")) walk.begin = std::max(walk.begin - 1, 0);
    walk.clear_begin = tile_from(clear_key, !is.any("clear-rounded-down", "clear-one-tile-late"),
                                 !is("clear-not-clamped")) +
                       is("clear-one-tile-late");
  }
  if (is("from-zero")) walk.begin = 0;
  if (is("only-the-first-tile-masked") && causal) walk.clear_begin = walk.begin + 1;
  if (is("masked-by-the-ratio") && causal)
    walk.clear_begin = walk.begin + (block_kv + block_q - 1) / block_q;
  const int tail = (c.kv_tile + 1) * block_kv + (is("tail-one-too-late") ? -1 : 0);
  if (!is("tail-forgotten") && !is("tail-clipped") && tail > c.len_kv) walk.clear_begin = q_tiles;
  if (is("nothing-clear")) walk.clear_begin = q_tiles;
  if (is("nothing-masked")) walk.clear_begin = walk.begin;
  const int visited = q_tiles - (is("skipped-ones-counted")      ? 0
                                 : is("only-clear-ones-counted") ? walk.clear_begin
                                                                 : walk.begin);
  walk.count = visited * (is("count-of-one-head") ? 1 : c.group);
  return walk;
}

static const exercise::Table MISTAKES(R"(
top-left-aligned
  query i was taken to see keys up to i. It sees keys up to i + len_kv - len_q
diagonal-reversed
  the diagonal has the other sign: query i sees keys up to i + len_kv - len_q, so key j is seen
  from query j - (len_kv - len_q) on
diagonal-hidden
  query i was taken not to see key i + len_kv - len_q. It is the last that it sees
begin-not-clamped: begin-not-clamped {,clear-not-clamped}
  where every query sees these keys the first one is query 0, not a negative one: clamp before
  dividing
starts-one-tile-late: begin-round-up; begin-round-and-one
  begin is rounded up. A tile whose last query sees one key is needed
starts-one-tile-early
  begin is one tile too early: right, and slow, its P is all 0
all-tiles-visited: from-zero; never
  tiles of queries are visited that see none of these keys: right, and slow
begin-by-the-last-key: begin-key-last; begin-key-behind
  begin was asked of the last key of the tile. The first key is seen earlier
only-the-first-tile-masked
  only the tile at begin is masked. With BLOCK_KV above BLOCK_Q, or a diagonal that is no multiple
  of it, the edge runs through more
masked-by-the-ratio
  BLOCK_KV / BLOCK_Q tiles are masked. If the diagonal does not begin where a tile does, it runs
  through one more
clear-by-the-first-key
  clear_begin was asked of the first key of the tile. All of its keys must be seen: ask the last
clear-by-the-key-behind
  clear_begin was computed from the key after the tile. The tile's last key is (kv_tile + 1) *
  BLOCK_KV - 1
clear-rounded-down
  clear_begin is rounded down. In a clear tile the first query sees all keys: round up
clear-one-tile-late
  where the first query of a tile is just the first that sees all keys, the tile is called masked:
  right, and slow. Round up by adding BLOCK_Q - 1
nothing-clear
  no tile is clear: right, but then every tile needs the mask
nothing-masked
  every tile is clear. Those at the edge need the mask
tail-called-clear: tail-forgotten; tail-clipped
  the keys end inside this tile, and tiles of queries are called clear. Those that do not exist must
  be masked
tail-one-too-late
  a tile that lacks one key counts as full: (kv_tile + 1) * BLOCK_KV > len_kv
count-of-one-head
  count is that of one head. `group` heads of queries share the keys, and the block visits them all
skipped-ones-counted
  count includes the skipped tiles. Count the tiles from begin onward, times group
only-clear-ones-counted
  count has the clear tiles alone. Masked ones are visited as well
last-tile-forgotten
  len_q / BLOCK_Q leaves out a last tile that is not full: round up
tiles-of-keys-counted
  the tiles of keys were counted. The block visits tiles of queries
always-causal
  `causal` was not asked. If it is false every query sees every key
blocks-exchanged
  one block was taken for the other: keys are counted in tiles of BLOCK_KV, queries in tiles of
  BLOCK_Q
tile-for-key
  kv_tile was taken as a key. The first one is kv_tile * BLOCK_KV
)");

// A letter for each tile of queries, and those that do not exist, and then how many are visited.
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
  for (const exercise::Row& row : MISTAKES) looks.push_back({row.name, "", row.explanation});
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
        for (const exercise::Row& row : MISTAKES)
          looks[next++].shown += map(walk_as(row.changes, c, BLOCK_Q, BLOCK_KV)) + "\n";
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
