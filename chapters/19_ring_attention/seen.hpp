#pragma once
// Decides which queries of a rank see which keys of another.

#include <algorithm>
#include <vector>

#include "ring.hpp"

namespace ch19 {

// Rows of queries [begin, end) of a piece that see the first `keys` keys of another piece. Inside a
// causal block, the last row sees all of these keys, and each earlier row one less.
struct Seen {
  int64_t begin, end, keys;
  bool causal;
};

// Returns what a piece of queries sees of a piece of keys, first fully masked rows, then a
// triangle, then rows that see all keys. Row i of the piece sees keys up to i + offset.
inline std::vector<Seen> what_is_seen(const Sizes& sizes, Range queries, Range keys) {
  if (keys.size() == 0 || queries.size() == 0) return {};
  if (!sizes.causal) return {{0, queries.size(), keys.size(), false}};
  const int64_t offset = queries.begin + sizes.len_kv - sizes.len_q - keys.begin;
  const int64_t first = std::clamp<int64_t>(-offset, 0, queries.size());
  const int64_t all = std::clamp(keys.size() - 1 - offset, first, queries.size());
  std::vector<Seen> seen;
  if (first < all) seen.push_back({first, all, all + offset, true});
  if (all < queries.size()) seen.push_back({all, queries.size(), keys.size(), false});
  return seen;
}

// Calls work(query row, key row, visible part) for every pair of pieces. Rows count from the start
// of the rank's part.
template <class Work>
void for_pairs(const Sizes& sizes, const std::vector<Range>& queries,
               const std::vector<Range>& keys, Work work) {
  int64_t query_row = 0;
  for (const Range& of_queries : queries) {
    int64_t key_row = 0;
    for (const Range& of_keys : keys) {
      for (const Seen& seen : what_is_seen(sizes, of_queries, of_keys))
        work(query_row + seen.begin, key_row, seen);
      key_row += of_keys.size();
    }
    query_row += of_queries.size();
  }
}

// Returns the number of query-key pairs that are not masked.
inline int64_t scores_of(const Sizes& sizes, const std::vector<Range>& queries,
                         const std::vector<Range>& keys) {
  int64_t scores = 0;
  for_pairs(sizes, queries, keys, [&](int64_t, int64_t, const Seen& seen) {
    const int64_t count = seen.end - seen.begin;
    scores += count * seen.keys - (seen.causal ? count * (count - 1) / 2 : 0);
  });
  return scores;
}

}  // namespace ch19
