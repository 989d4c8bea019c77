#pragma once
// Decides which rank holds which part of a sequence.

#include <cstdint>
#include <vector>

namespace ch19 {

// Positions [begin, end) of queries or of keys.
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Returns the n-th of `parts` pieces of a sequence, which are as equal as possible.
inline Range piece(int64_t length, int64_t parts, int64_t n) {
  return {n * length / parts, (n + 1) * length / parts};
}

enum class Layout {
  in_order,  // rank r holds piece r of P
  zigzag,  // rank r holds pieces r and 2 P - 1 - r of 2 P, because early queries see few keys, late
           // queries see many
};

// Returns the pieces of a rank in ascending order. Pieces may be empty.
inline std::vector<Range> pieces_of(Layout layout, int64_t length, int ranks, int rank) {
  if (layout == Layout::in_order) return {piece(length, ranks, rank)};
  return {piece(length, 2 * ranks, rank), piece(length, 2 * ranks, 2 * ranks - 1 - rank)};
}

inline int64_t rows_in(const std::vector<Range>& pieces) {
  int64_t rows = 0;
  for (const Range& one : pieces) rows += one.size();
  return rows;
}

}  // namespace ch19
