#pragma once
// Copies the part of a rank from a whole tensor, and back.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "partition.hpp"

namespace ch19 {

// Calls copy(row of the part, row of the whole) for the rows of `pieces` in [heads, length, …].
template <class Copy>
void for_rows(const std::vector<Range>& pieces, int64_t heads, int64_t length, Copy copy) {
  const int64_t rows = rows_in(pieces);
  for (int64_t head = 0; head < heads; ++head) {
    int64_t row = 0;
    for (const Range& piece : pieces)
      for (int64_t i = piece.begin; i < piece.end; ++i, ++row)
        copy(head * rows + row, head * length + i);
  }
}

// Returns [heads, rows of the pieces, dim] of [heads, length, dim].
inline std::vector<float> cut(const std::vector<float>& whole, const std::vector<Range>& pieces,
                              int64_t heads, int64_t length, int64_t dim) {
  std::vector<float> part(heads * rows_in(pieces) * dim);
  for_rows(pieces, heads, length, [&](int64_t to, int64_t from) {
    std::copy_n(whole.begin() + from * dim, dim, part.begin() + to * dim);
  });
  return part;
}

inline void put(std::vector<float>& whole, const std::vector<float>& part,
                const std::vector<Range>& pieces, int64_t heads, int64_t length, int64_t dim) {
  for_rows(pieces, heads, length, [&](int64_t from, int64_t to) {
    std::copy_n(part.begin() + from * dim, dim, whole.begin() + to * dim);
  });
}

}  // namespace ch19
