// Makes wgmma's 64-bit descriptor of a matrix in shared memory (PTX ISA, "Matrix descriptor").
// common/backend.hpp includes this file, once in each build.
#pragma once

#include <cstdint>

#include "common/tensor_map.hpp"

namespace FA_BACKEND {

using fa::Swizzle;

/// Returns the descriptor of a matrix. `address` is that of its first element. Both distances are
/// in bytes and multiples of 16. Their meaning depends on the layout:
///
///   K-major (the 16 elements of k in a row are contiguous): 8 rows form a group. `stride_bytes` is
///   the
///     distance between groups. Without a swizzle, `leading_bytes` is the distance from the first 8
///     k to the last 8. With a swizzle it is ignored, because a row is one line of the swizzle.
///   MN-major (the elements of m or n are contiguous, in rows of k): with a swizzle,
///   `leading_bytes` is
///     the distance between adjacent lines (each swizzle_span bytes wide), and `stride_bytes` that
///     from 8 k to the next 8. Without a swizzle the two are exchanged, and a line has 8 elements.
///
/// With a swizzle, the tile starts at a multiple of 8 lines (1024 bytes for 128-byte lines).
/// `address` may be inside the first line, which is how the next 16 k are reached.
// [anchor: descriptor]
FA_HOST_DEVICE constexpr uint64_t wgmma_descriptor(uint32_t address, uint32_t leading_bytes,
                                                   uint32_t stride_bytes, Swizzle swizzle) {
  const auto field = [](uint32_t bytes) { return uint64_t{(bytes & 0x3ffff) >> 4}; };
  return field(address) | field(leading_bytes) << 16 | field(stride_bytes) << 32 |
         uint64_t{static_cast<uint8_t>(swizzle)} << 62;
}
// [/anchor: descriptor]

/// Returns the descriptor of the same tile `bytes` later, for example for the next 16 k.
FA_HOST_DEVICE constexpr uint64_t advance_descriptor(uint64_t descriptor, uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

}  // namespace FA_BACKEND
