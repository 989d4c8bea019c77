#include <doctest/doctest.h>
#include <attend_causal.hpp>

#include <cstdio>
#include <vector>

#include "exercises/support/verdict.hpp"

// Attention to the keys up to `last`, one after the other.
static double attend_up_to(int last, const std::vector<float>& s, const std::vector<float>& v) {
  double l = 0, o = 0;
  for (int j = 0; j <= last && j < static_cast<int>(s.size()); ++j) {
    l += std::exp(static_cast<double>(s[j]));
    o += std::exp(static_cast<double>(s[j])) * v[j];
  }
  return l == 0 ? 0 : o / l;
}

static void check_shape(int len_q, int len_kv, int block) {
  const auto s = exercise::random_numbers(len_kv, 1), v = exercise::random_numbers(len_kv, 2);
  const int offset = len_kv - len_q;
  // For every query its result and the number of tiles that it took, if the first tile for which
  // stops(i, first) is the last to be looked at, and key j is seen up to j = i + seen.
  const auto with = [&](auto stops, int seen) {
    exercise::Numbers all;
    for (int i = 0; i < len_q; ++i) {
      int end = 0;
      while (end * block < len_kv && !stops(i, end * block)) ++end;
      all.push_back(attend_up_to(std::min(i + seen, end * block - 1), s, v));
      all.push_back(end);
    }
    return all;
  };
  const auto behind = [](int distance) {
    return [=](int i, int first) { return first > i + distance; };
  };
  const exercise::Numbers right = with(behind(offset), offset);
  exercise::Numbers got;
  std::string table = "  query  sees keys  visited tiles       o   right o\n";
  for (int i = 0; i < len_q; ++i) {
    int visited = 0;
    const double o = debugging::attend_causal(i, len_q, s, v, block, visited);
    const int last = i + offset;
    got.insert(got.end(), {o, static_cast<double>(visited)});
    const double right_o = right[2 * i];
    const int right_tiles = static_cast<int>(right[2 * i + 1]);
    char line[120];
    std::snprintf(line, sizeof line, "  %5d  %9s         %d of %d  %7.4f   %7.4f\n", i,
                  last < 0 ? "none" : ("0 .. " + std::to_string(last)).c_str(), visited,
                  right_tiles, o, right_o);
    table += line;
  }
  INFO(table);
  exercise::Output output{"query"};
  output.columns = 2;
  output.labels = {"o", "tiles"};
  exercise::check_output(
      output, got, right,
      {{"offset-reversed", with(behind(-offset), offset),
        "the offset is Lkv - Lq, added to the query: with more keys than queries it sees further"},
       {"offset-reversed", with(behind(-offset), -offset),
        "the offset is Lkv - Lq, added to the query: with more keys than queries it sees further"},
       {"nothing-skipped", with(behind(len_kv + len_q), offset),
        "right, but every tile is visited, also those in which every key is hidden: the condition "
        "is missing, or its bound too large"},
       {"offset-nowhere", with(behind(0), 0),
        "without the offset, skipping and masking agree with each other, and the last query no "
        "longer sees the last key"},
       {"offset-clamped", with(behind(std::max(offset, 0)), offset),
        "right, but the offset is taken for 0 where it is negative: with fewer keys than queries "
        "tiles are visited in which every key is hidden"},
       {"own-tile-skipped", with([=](int i, int first) { return first >= i + offset; }, offset),
        "the tile that begins with the last visible key is skipped: a query sees that key, so > "
        "and not >="},
       {"partial-tile-skipped",
        with([=](int i, int first) { return first + block > i + offset; }, offset),
        "a tile is skipped when its last key is hidden. Skip it when its first one is"},
       {"partial-tile-skipped",
        with([=](int i, int first) { return first + block - 1 > i + offset; }, offset),
        "a tile is skipped when its last key is hidden. Skip it when its first one is"},
       {"one-tile-too-many", with(behind(offset + block), offset),
        "right, but one tile is visited in which every key is hidden"},
       {"one-tile-too-many", with(behind(offset + block - 1), offset),
        "right, but a tile is visited in which every key is hidden"},
       {"one-tile-too-many", with(behind(offset + 1), offset),
        "right, but a tile is visited that begins with the first hidden key"}});
}

TEST_CASE("as many keys as queries") { check_shape(8, 8, 4); }
TEST_CASE("more keys than queries") { check_shape(4, 14, 4); }
TEST_CASE("fewer keys than queries") { check_shape(12, 5, 2); }
