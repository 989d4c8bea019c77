#pragma once
// A field holds a number of bytes without its last four bits. So the number is shifted right, then
// to the field's place. The step is split, because the next panel does not begin after the end of a
// line.

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex13 {

// A tile of K is at `smem`, a multiple of 1024, as panels one after the other, each of `rows` keys
// (a multiple of 8). In a panel a key has a line of `line_bytes`: 128, 64 or 32 bytes, which is
// also the span of the swizzle. An element, bf16 or fp16, has 2 bytes.
FA_HOST_DEVICE inline uint64_t k_descriptor(uint32_t smem, uint32_t rows, uint32_t line_bytes,
                                            uint32_t step) {
  const uint32_t steps = line_bytes / 32;  // of a line
  const uint32_t start = smem + step / steps * rows * line_bytes + step % steps * 32;
  const uint64_t stride = 8 * line_bytes;
  const uint64_t swizzle = line_bytes == 128 ? 1 : line_bytes == 64 ? 2 : 3;
  return start >> 4 | stride >> 4 << 32 | swizzle << 62;
}

}  // namespace FA_BACKEND::ex13
