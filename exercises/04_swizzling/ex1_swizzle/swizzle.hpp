#pragma once
// Where the 16-byte chunks of a tile are kept, so that ldmatrix meets no bank twice.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex04 {

// offset is in bytes from the start of a row-major tile, a multiple of 16. The row is offset /
// ROW_BYTES.
template <int ROW_BYTES>
FA_DEVICE uint32_t swizzle(uint32_t offset) {
  static_assert(ROW_BYTES >= 16 && (ROW_BYTES & (ROW_BYTES - 1)) == 0, "a power of two from 16 up");
  exercise::todo("TODO(04.1): offset with the number of its chunk in the row changed");
}

}  // namespace FA_BACKEND::ex04
