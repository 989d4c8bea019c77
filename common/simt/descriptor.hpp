#pragma once
// Decodes a matrix descriptor of wgmma and returns the address of each 16-byte chunk of its matrix.

#include <cstdint>

#include "common/tensor_map.hpp"

namespace fa::simt {

struct MatrixDescriptor {
  uint32_t start, leading, stride;  // in bytes
  Swizzle swizzle;
  uint32_t base_offset;
  bool reserved;  // reserved bits are set

  explicit MatrixDescriptor(uint64_t bits)
      : start((bits & 0x3fff) << 4),
        leading((bits >> 16 & 0x3fff) << 4),
        stride((bits >> 32 & 0x3fff) << 4),
        swizzle(static_cast<Swizzle>(bits >> 62)),
        base_offset(bits >> 49 & 7),
        reserved((bits & 0x3ff1'c000'c000'c000u) != 0) {}

  /// True if the first line is at the start of a repetition of the swizzle pattern.
  bool aligned() const {
    const uint32_t span = swizzle_span(swizzle);
    return swizzle == Swizzle::none || (start & (span * 8 - 1) & ~127u) == 0;
  }

  /// K-major: returns the address of elements k = 8 chunk to 8 chunk + 7 of a row.
  uint32_t k_major(int row, int chunk) const {
    const auto r = static_cast<uint32_t>(row), c = static_cast<uint32_t>(chunk);
    const bool plain = swizzle == Swizzle::none;
    return swizzled(swizzle, start + r / 8 * stride + r % 8 * swizzle_span(swizzle) +
                                 c * (plain ? leading : 16));
  }

  /// MN-major: returns the address of elements 8 chunk to 8 chunk + 7 of m or n, at k.
  uint32_t mn_major(int chunk, int k) const {
    const auto c = static_cast<uint32_t>(chunk), row = static_cast<uint32_t>(k);
    const uint32_t span = swizzle_span(swizzle), chunks = span / 16;
    const bool plain = swizzle == Swizzle::none;
    return swizzled(swizzle, start + c / chunks * (plain ? stride : leading) + c % chunks * 16 +
                                 row % 8 * span + row / 8 * (plain ? leading : stride));
  }
};

}  // namespace fa::simt
