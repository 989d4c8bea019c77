#pragma once

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex04 {

template <int ROW_BYTES>
FA_DEVICE uint32_t swizzle(uint32_t offset) {
  if (ROW_BYTES == 16) return offset;
  constexpr uint32_t ROWS = ROW_BYTES < 64 ? 64 / ROW_BYTES : 1;
  const uint32_t row = offset / ROW_BYTES % 8;
  return offset ^ (row / ROWS << 4);
}

}  // namespace FA_BACKEND::ex04
