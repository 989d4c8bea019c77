#pragma once
// How Hopper's tensor core sums products of 8-bit floating point: not in fp32.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ch17 {

inline constexpr int kProductsAtATime = 32;  // of one wgmma of e4m3
inline constexpr int kFractionBits = 13;     // that the sum keeps below its largest term

// accumulators[c] += sum over k of a[k] · b[k · b_stride + c], for kProductsAtATime k, as a model
// of what is published (DeepSeek-V3's and SageAttention2's experiments): all products and the
// accumulator are aligned to the largest exponent among them, bits more than 13 below it are cut
// off, toward zero, and so are those of the sum. NaN and Inf give NaN.
inline void tensor_core_add(float* accumulators, int columns, const float* a, const float* b,
                            int64_t b_stride) {
  constexpr int64_t kColumns = 64;  // at a time: the compiler makes vectors of the inner loops
  for (int begin = 0; begin < columns; begin += kColumns) {
    const int count = static_cast<int>(std::min<int64_t>(kColumns, columns - begin));
    float* const sums = accumulators + begin;
    int32_t largest[kColumns], total[kColumns];  // bits of the largest magnitude; sum in quanta
    float quantum[kColumns], inverse[kColumns];
    for (int c = 0; c < count; ++c) largest[c] = std::bit_cast<int32_t>(sums[c]) & 0x7fffffff;
    for (int k = 0; k < kProductsAtATime; ++k) {
      const float* const row = b + k * b_stride + begin;
      for (int c = 0; c < count; ++c) {
        const int32_t bits = std::bit_cast<int32_t>(a[k] * row[c]) & 0x7fffffff;
        largest[c] = std::max(largest[c], bits);
      }
    }
    bool finite = true;
    for (int c = 0; c < count; ++c) {
      finite = finite && largest[c] < 0x7f800000;
      // From 2^-100 to 2^100, where the quantum and its inverse are normal numbers. Products of
      // e4m3 lie within 2^-18 and 2^18.
      const int exponent = std::clamp(largest[c] >> 23, 27, 227);
      quantum[c] = std::bit_cast<float>((exponent - kFractionBits) << 23);
      inverse[c] = std::bit_cast<float>((254 + kFractionBits - exponent) << 23);
    }
    if (!finite) {  // an integer cannot hold them
      for (int c = 0; c < count; ++c) sums[c] = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    for (int c = 0; c < count; ++c) total[c] = static_cast<int32_t>(sums[c] * inverse[c]);
    for (int k = 0; k < kProductsAtATime; ++k) {
      const float* const row = b + k * b_stride + begin;
      for (int c = 0; c < count; ++c) {
        total[c] += static_cast<int32_t>(a[k] * row[c] * inverse[c]);
      }
    }
    constexpr uint32_t kKept = ~((1u << (23 - kFractionBits)) - 1);
    for (int c = 0; c < count; ++c) {
      const float sum = static_cast<float>(total[c]) * quantum[c];  // exact: under 2^20 quanta
      sums[c] = std::bit_cast<float>(std::bit_cast<uint32_t>(sum) & kKept);
    }
  }
}

}  // namespace ch17
