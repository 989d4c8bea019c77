// What wgmma is told of a matrix in shared memory: 64 bits (PTX ISA, "Matrix descriptor"). Included
// by common/backend.hpp, once for each build.
#pragma once

#include <cstdint>

#include "common/tensor_map.hpp"

namespace FA_BACKEND {

using fa::Swizzle;

/// `address` of the first element; both distances in bytes, multiples of 16. What they mean:
///
///   K-major (a row's 16 elements of k lie side by side): 8 rows form a group. `stride_bytes`: from
///     one group to the next. `leading_bytes`: without swizzle, from the first 8 k to the last 8;
///     with one it is ignored, as a row is one line of the swizzle.
///   MN-major (rows of k, elements of m or n side by side): with a swizzle, `leading_bytes` from
///     one line (swizzle_span bytes wide) to the line beside it, `stride_bytes` from 8 k to the
///     next 8. Without one the other way round, and 8 elements are a line.
///
/// With a swizzle the tile begins at a multiple of 8 lines (1024 bytes for 128-byte lines); an
/// address inside the first line is fine: that is how the next 16 k are reached.
// [anchor: descriptor]
FA_HOST_DEVICE constexpr uint64_t wgmma_descriptor(uint32_t address, uint32_t leading_bytes,
                                                   uint32_t stride_bytes, Swizzle swizzle) {
  const auto field = [](uint32_t bytes) { return uint64_t{(bytes & 0x3ffff) >> 4}; };
  return field(address) | field(leading_bytes) << 16 | field(stride_bytes) << 32 |
         uint64_t{static_cast<uint8_t>(swizzle)} << 62;
}
// [/anchor: descriptor]

/// The same tile, `bytes` further on: the next 16 k.
FA_HOST_DEVICE constexpr uint64_t advance_descriptor(uint64_t descriptor, uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

}  // namespace FA_BACKEND
