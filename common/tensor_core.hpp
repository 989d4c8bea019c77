#pragma once
// How a tensor core adds the products of one instruction: not in fp32, and not one after the other.
// The emulator's mma and wgmma and chapter 17's simulation compute with it. On an H100, all sums of
// mma.m16n8k16 (bf16, fp16) and wgmma (bf16, fp16, e4m3) that we tried have the same bits:
// docs/measurements/h100/mma_sums.csv.
//
// A sum d = c + a0 b0 + a1 b1 + ... of one instruction:
//   1. The exponent of a product is the sum of its factors' exponents, though 1.5 * 1.5 is above 2.
//      A subnormal factor has the exponent of the smallest normal number. Products that are zero,
//      and a c that is zero, are left out.
//   2. All terms, c too, are aligned to the largest of these exponents, or to -133 if all are
//   below.
//      Bits more than `fraction_bits` below it are cut off, toward zero.
//   3. What is left is added exactly.
//   4. Of the sum, bits more than `kept_bits` below its own leading one are cut off, toward zero. A
//      sum that is too large for fp32 is Inf; one that is zero is +0. A sum below 2^-126 keeps
//      fp32's subnormal bits.
//   5. A NaN, Inf times zero, or Inf and -Inf together make the NaN 0x7fffffff; Inf stays Inf.
//
// Rules 2 to 4 and their bits for each card: Xie, Wang, Yang, Yang, "MMA-Sim: Bit-Accurate
// Reference Model of Tensor Cores and Matrix Cores", arXiv 2511.10909. That 8-bit sums are short
// was found by the authors of SageAttention2 and of DeepSeek-V3. That zeros are left out (rule 1)
// is measured.

#include <cstdint>

#include "common/fp8.hpp"
#include "common/half.hpp"

namespace fa {

struct SumRule {
  int products;       // of one instruction
  int fraction_bits;  // kept of each term below the largest exponent
  int kept_bits;      // kept of the sum below its leading one
  int min_exponent;   // of a normal factor
};
template <class T>
inline constexpr SumRule kSumRule = {16, 25, 23, -126};  // bf16
template <>
inline constexpr SumRule kSumRule<fp16> = {16, 25, 23, -14};
template <>
inline constexpr SumRule kSumRule<e4m3> = {32, 13, 13, -6};

/// c + sum over k of a[k * a_stride] b[k], for kSumRule<T>.products k. The factors are numbers of
/// type T. One sum at a time: the rule as it is written above.
template <class T>
float tensor_core_sum(float c, const float* a, int64_t a_stride, const float* b);

/// D += A B, in rows and columns of words of 32 bits: 2 factors of 16 bits or 4 of 8, the first in
/// the low bits. a: [8][ROWS], word w of each row of A; b: [columns][8]; sums: [columns][ROWS], and
/// each becomes the tensor_core_sum<T> of its row of A and its column of B. ROWS: 16 or 64.
template <class T, int ROWS>
void tensor_core_multiply(float* sums, int columns, const uint32_t* a, const uint32_t* b);
inline constexpr int kWordsAtATime = 8;

/// The same for one column whose factors are fp32 numbers that T has, and any number of rows:
/// sums[i] = tensor_core_sum<T>(sums[i], a + i, a_stride, b).
template <class T>
void tensor_core_add(float* sums, int rows, const float* a, int64_t a_stride, const float* b);

}  // namespace fa
