#pragma once
// Rows that share a line of 128 bytes are in different banks already. Rows that are whole lines
// apart collide, so the term of the XOR is the number of the line and not of the row. The remainder
// is needed because XOR may change only the bits that number a chunk within its row. Otherwise the
// chunk would leave its row.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex04 {

template <int ROW_BYTES>
FA_DEVICE uint32_t swizzle(uint32_t offset) {
  constexpr uint32_t CHUNKS = (ROW_BYTES < 128 ? ROW_BYTES : 128) / 16;
  constexpr uint32_t ROWS_PER_LINE = ROW_BYTES < 128 ? 128 / ROW_BYTES : 1;
  const uint32_t row = offset / ROW_BYTES;
  return offset ^ (row / ROWS_PER_LINE % CHUNKS * 16);
}

}  // namespace FA_BACKEND::ex04
