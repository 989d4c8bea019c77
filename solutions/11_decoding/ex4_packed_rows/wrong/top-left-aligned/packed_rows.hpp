#pragma once

struct Row {
  bool exists;
  int head, query;  // of Q
  int end_key;      // the row sees keys [0, end_key); of no meaning for a row that does not exist
};

// Row `row` of the tile of head `kv_head` of K and V: rows are the queries of the `group` heads
// that share it, heads fastest: first query 0 of all of them, then query 1. The newest query stands
// at the last of `length` keys, and a query sees those up to its own.
inline Row row_of(int kv_head, int group, int len_q, int length, int row) {
  const int query = row / group;
  return {row < group * len_q, kv_head * group + row % group, query, query + 1};
}
