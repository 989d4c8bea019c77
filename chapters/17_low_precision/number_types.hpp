#pragma once
// Number types of 8 and 4 bits beside e4m3 (common/fp8.hpp), and the block formats made of them.
// Formats: OCP 8-bit Floating Point 1.0 (e5m2), OCP Microscaling Formats 1.0 (e2m1, e8m0, MXFP8),
// NVIDIA's description of NVFP4. All roundings are to nearest, ties to even, saturating.

#include <cstdint>
#include <span>

#include "common/fp8.hpp"

namespace ch17 {

struct e5m2 {  // 1 sign, 5 exponent, 2 mantissa bits: fp16 without its last byte; up to 57344
  uint8_t bits;
};
struct e2m1 {    // 1 sign, 2 exponent, 1 mantissa bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6; neither Inf nor
                 // NaN
  uint8_t bits;  // of which the lower four count
};
struct e8m0 {  // an exponent alone: 2^(bits - 127); 255 is NaN
  uint8_t bits;
};

inline constexpr float kLargestE5m2 = 57344, kLargestE2m1 = 6;

float to_float(e5m2 value);
float to_float(e2m1 value);
float to_float(e8m0 value);

// Inf becomes the largest number, as CUDA's satfinite has it. A NaN stays one; e2m1, which has
// none, gets 6.
e5m2 to_e5m2(float value);
e2m1 to_e2m1(float value);
// The largest power of two that is not above `value`; 2^-127 for what is below, 0 too. A negative
// number and NaN become NaN.
e8m0 to_e8m0(float value);

inline constexpr int kMxfp8Block = 32, kNvfp4Block = 16;

// What survives of the numbers of a row, in place. The blocks begin at the row's beginning; the
// last may be shorter. A NaN or Inf makes its block NaN.

// A block of 32 has one e8m0 scale, 2^(floor(log2 largest) - 8), its numbers are e4m3: what lies
// between 448 and 512 times the scale becomes 448 times it.
void round_mxfp8(std::span<float> row);

// A block of 16 has one e4m3 scale, its largest / 6 in units of `tensor_scale`; its numbers are
// e2m1.
void round_nvfp4(std::span<float> row, float tensor_scale);
// The fp32 scale with which the largest number of a tensor just fits: largest / (6 · 448).
float nvfp4_tensor_scale(float largest);

}  // namespace ch17
