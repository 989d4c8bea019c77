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
  const auto tiles_to = [&](int key) {
    return key < 0 ? 0 : std::min(key, len_kv - 1) / block + 1;
  };
  const auto end_of_tiles = [&](int key) { return tiles_to(key) * block - 1; };
  exercise::Numbers got, right, reversed, skipped, nowhere;
  std::string table =
      "TODO(D.2): this program is wrong; find the line and mend it\n  query  sees keys  visited "
      "tiles       o   right o\n";
  for (int i = 0; i < len_q; ++i) {
    int visited = 0;
    const double o = debugging::attend_causal(i, len_q, s, v, block, visited);
    const int last = i + offset;
    // A query's result, and how many tiles it took.
    const auto add = [](exercise::Numbers& to, double result, int tiles) {
      to.push_back(result);
      to.push_back(tiles);
    };
    add(got, o, visited);
    add(right, attend_up_to(last, s, v), tiles_to(last));
    add(reversed, attend_up_to(std::min(last, end_of_tiles(i - offset)), s, v),
        tiles_to(i - offset));
    add(skipped, attend_up_to(last, s, v), tiles_to(len_kv - 1));
    add(nowhere, attend_up_to(i, s, v), tiles_to(i));
    char line[120];
    std::snprintf(line, sizeof line, "  %5d  %9s         %d of %d  %7.4f   %7.4f\n", i,
                  last < 0 ? "none" : ("0 .. " + std::to_string(last)).c_str(), visited,
                  tiles_to(last), o, attend_up_to(last, s, v));
    table += line;
  }
  INFO(table);
  exercise::Output output{"query"};
  output.columns = 2;
  output.labels = {"o", "tiles"};
  exercise::check_output(
      output, got, right,
      {{"offset-reversed", reversed,
        "the offset is Lkv - Lq, added to the query: with more keys than queries it sees further"},
       {"nothing-skipped", skipped, "right, but tiles are visited in which every key is hidden"},
       {"offset-nowhere", nowhere,
        "without the offset, skipping and masking agree with each other, and the last query no "
        "longer sees the last key"}});
}

TEST_CASE("as many keys as queries") { check_shape(8, 8, 4); }
TEST_CASE("more keys than queries") { check_shape(4, 14, 4); }
TEST_CASE("fewer keys than queries") { check_shape(12, 5, 2); }
