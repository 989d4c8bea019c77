#pragma once
// The 64 bits that describe to wgmma a tile of K in shared memory.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex13 {

// A tile of K is at `smem`, a multiple of 1024, as panels one after the other, each of `rows` keys
// (a multiple of 8). In a panel a key has a line of `line_bytes`: 128, 64 or 32 bytes, which is
// also the span of the swizzle. An element, bf16 or fp16, has 2 bytes.
//
// Returns the descriptor of columns 16 * step to 16 * step + 15 of all keys, K-major:
//
//   bits  0 to 13   address >> 4        bits 32 to 45   from 8 rows to the next 8, >> 4
//   bits 16 to 29   not used here       bits 62, 63     1, 2, 3: swizzle of 128, 64, 32 bytes
//
// All others are 0. Yours are shifts and |, not wgmma_descriptor().
FA_HOST_DEVICE inline uint64_t k_descriptor(uint32_t smem, uint32_t rows, uint32_t line_bytes,
                                            uint32_t step) {
  exercise::todo("TODO(13.1): the start, the stride, the swizzle");
}

}  // namespace FA_BACKEND::ex13
