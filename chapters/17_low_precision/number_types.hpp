#pragma once
// Number types of 8 and 4 bits besides e4m3 (common/fp8.hpp), and the block formats that use them.
// Formats: OCP 8-bit Floating Point 1.0 (e5m2), OCP Microscaling Formats 1.0 (e2m1, e8m0, MXFP8),
// NVIDIA's description of NVFP4. All rounding is to nearest, ties to even, saturating.

#include <cstdint>
#include <span>

#include "common/fp8.hpp"

namespace ch17 {

struct e5m2 {  // 1 sign, 5 exponent, 2 mantissa bits: the upper byte of fp16; up to 57344
  uint8_t bits;
};
struct e2m1 {    // 1 sign, 2 exponent, 1 mantissa bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6; neither Inf nor
                 // NaN
  uint8_t bits;  // only the lower four are used
};
struct e8m0 {  // only an exponent: 2^(bits - 127); 255 is NaN
  uint8_t bits;
};

inline constexpr float kLargestE5m2 = 57344, kLargestE2m1 = 6;

float to_float(e5m2 value);
float to_float(e2m1 value);
float to_float(e8m0 value);

// Inf becomes the largest number, as with CUDA's satfinite. A NaN stays one, but e2m1 has none and
// uses 6.
e5m2 to_e5m2(float value);
e2m1 to_e2m1(float value);
// Returns the largest power of two that is not above `value`, or 2^-127 for smaller values,
// including 0. A negative number and NaN become NaN.
e8m0 to_e8m0(float value);

inline constexpr int kMxfp8Block = 32, kNvfp4Block = 16;

// The following functions round the numbers of a row in place. Blocks start at the start of the
// row, and the last may be shorter. A NaN or an Inf makes its block NaN.

// A block of 32 has one e8m0 scale, 2^(floor(log2 largest) - 8), and e4m3 elements. Values between
// 448 and 512 times the scale become 448 times it.
void round_mxfp8(std::span<float> row);

// A block of 16 has one e4m3 scale, its largest / 6 in units of `tensor_scale`, and e2m1 elements.
void round_nvfp4(std::span<float> row, float tensor_scale);
// Returns the fp32 scale for which the largest number of a tensor just fits, which is largest / (6
// · 448).
float nvfp4_tensor_scale(float largest);

}  // namespace ch17
