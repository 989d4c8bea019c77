#pragma once
// How Hopper's tensor core sums products of 8-bit floating point: not in fp32. Used by the emulator
// and by chapter 17's simulation.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace fa {

inline constexpr int kProductsAtATime = 32;  // of one wgmma of e4m3
inline constexpr int kFractionBits = 13;     // that the sum keeps below its largest term

// accumulators[c] += sum over k of a[k] · b[k · b_stride + c], for kProductsAtATime k; a and b are
// numbers of e4m3. Bit for bit what an H200 does, in all of 204800 sums of random numbers
// (docs/measurements/h200/ch17_fp8_sums.txt):
//
//   - all products and the accumulator are aligned to the largest exponent among them. That of a
//     product is the sum of its factors' exponents, though 1.5 · 1.5 is above 2; a subnormal factor
//     has -6, as the smallest normal number;
//   - of each of them, bits more than 13 below that are cut off, toward zero;
//   - of their sum, bits more than 13 below its own leading one, likewise.
//
// That it is not fp32 was found by SageAttention2's and DeepSeek-V3's authors. NaN, or an
// accumulator of Inf, gives NaN.
inline void tensor_core_add(float* accumulators, int columns, const float* a, const float* b,
                            int64_t b_stride) {
  constexpr int kColumns = 64;  // at a time: the compiler makes vectors of the inner loops
  constexpr int kBias = 127;    // of fp32's exponents
  constexpr int kSubnormal = kBias - 6, kZero = 0;
  // Of a factor, with fp32's bias; two zeros or a zero and anything stay below all products.
  const auto exponent_of = [=](float x) {
    const int32_t bits = std::bit_cast<int32_t>(x) & 0x7fffffff;
    return bits == 0 ? kZero : std::max(bits >> 23, kSubnormal);
  };
  int exponents[kProductsAtATime];
  for (int k = 0; k < kProductsAtATime; ++k) exponents[k] = exponent_of(a[k]);

  for (int begin = 0; begin < columns; begin += kColumns) {
    const int count = std::min(kColumns, columns - begin);
    float* const sums = accumulators + begin;
    int32_t largest[kColumns], bad[kColumns], total[kColumns];
    float quantum[kColumns], inverse[kColumns];
    for (int c = 0; c < count; ++c) {
      largest[c] = (std::bit_cast<int32_t>(sums[c]) & 0x7fffffff) >> 23;
      bad[c] = largest[c] == 255;
    }
    for (int k = 0; k < kProductsAtATime; ++k) {
      const float* const row = b + k * b_stride + begin;
      for (int c = 0; c < count; ++c) {
        const int32_t bits = std::bit_cast<int32_t>(row[c]) & 0x7fffffff;
        const int exponent = bits == 0 ? kZero : std::max(bits >> 23, kSubnormal);
        largest[c] = std::max(largest[c], exponents[k] + exponent - kBias);
        bad[c] |= (std::bit_cast<int32_t>(a[k] * row[c]) & 0x7fffffff) >= 0x7f800000;
      }
    }
    for (int c = 0; c < count; ++c) {
      // From 2^-100 to 2^100, where the quantum and its inverse are normal numbers. Products of
      // e4m3 lie within 2^-18 and 2^18.
      const int exponent = std::clamp(largest[c], kBias - 100, kBias + 100);
      quantum[c] = std::bit_cast<float>((exponent - kFractionBits) << 23);
      inverse[c] = std::bit_cast<float>((2 * kBias + kFractionBits - exponent) << 23);
      total[c] = bad[c] ? 0 : static_cast<int32_t>(sums[c] * inverse[c]);
    }
    for (int k = 0; k < kProductsAtATime; ++k) {
      const float* const row = b + k * b_stride + begin;
      for (int c = 0; c < count; ++c)
        total[c] += bad[c] ? 0 : static_cast<int32_t>(a[k] * row[c] * inverse[c]);
    }
    constexpr uint32_t kKept = ~((1u << (23 - kFractionBits)) - 1);
    for (int c = 0; c < count; ++c) {
      const float sum = static_cast<float>(total[c]) * quantum[c];  // exact: under 2^21 quanta
      sums[c] = bad[c] ? std::numeric_limits<float>::quiet_NaN()
                       : std::bit_cast<float>(std::bit_cast<uint32_t>(sum) & kKept);
    }
  }
}

}  // namespace fa
