#pragma once
// Adds the products of one instruction in the way of a tensor core, which uses neither fp32 nor a
// sequential order. The emulator's mma and wgmma and the simulation of chapter 17 use it. On an
// H100, all sums of mma.m16n8k16 (bf16, fp16) and wgmma (bf16, fp16, e4m3) that we tried have the
// same bits (docs/measurements/h100/mma_sums.csv).
//
// A sum d = c + a0 b0 + a1 b1 + ... of one instruction is computed in these steps:
//   1. The exponent of a product is the sum of its factors' exponents, even if the product of the
//      mantissas is 2 or more. A subnormal factor has the exponent of the smallest normal number.
//      Products that are zero are left out, and so is a c that is zero.
//   2. All terms, including c, are aligned to the largest of these exponents, or to -133 if all are
//      smaller. Bits more than `fraction_bits` below it are truncated toward zero.
//   3. The truncated terms are added exactly.
//   4. Bits of the sum more than `kept_bits` below its leading one are truncated toward zero. A sum
//      that is too large for fp32 becomes Inf, and one that is zero becomes +0. A sum below 2^-126
//      keeps fp32's subnormal bits.
//   5. A NaN, Inf times zero, or Inf and -Inf together give the NaN 0x7fffffff. Inf stays Inf.
//
// Rules 2 to 4 and their bits for each card come from Xie, Wang, Yang, Yang, "MMA-Sim: Bit-Accurate
// Reference Model of Tensor Cores and Matrix Cores", arXiv 2511.10909. The authors of
// SageAttention2 and of DeepSeek-V3 found that sums of 8-bit products have few bits. We measured
// that zeros are left out (rule 1).

#include <cstdint>

#include "common/fp8.hpp"
#include "common/half.hpp"

namespace fa {

// Two formats that only mma reads. tf32 is an fp32 number without its last 13 bits. e5m2 is the
// high byte of an fp16 number.
struct tf32 {
  uint32_t bits;
};
struct e5m2 {
  uint8_t bits;
};
// The 8-bit factors of an mma whose A has type A_ and whose B has type B_.
template <class A_, class B_>
struct Mixed {
  uint8_t bits;
};
template <class T>
struct FactorsOf {
  using A = T;
  using B = T;
};
template <class A_, class B_>
struct FactorsOf<Mixed<A_, B_>> {
  using A = A_;
  using B = B_;
};

struct SumRule {
  int products;       // per instruction
  int fraction_bits;  // bits kept of each term below the largest exponent
  int kept_bits;      // bits kept of the sum below its leading one
  int min_exponent;   // smallest exponent of a normal factor
};
template <class T>
inline constexpr SumRule kSumRule = {16, 25, 23, -126};  // bf16
template <>
inline constexpr SumRule kSumRule<fp16> = {16, 25, 23, -14};
template <>
inline constexpr SumRule kSumRule<e4m3> = {32, 13, 13, -6};
// These two are from the same paper, and we have not compared them with a card.
template <>
inline constexpr SumRule kSumRule<tf32> = {8, 25, 23, -126};
template <>
inline constexpr SumRule kSumRule<e5m2> = {32, 13, 13, -14};
template <class A, class B>
inline constexpr SumRule kSumRule<Mixed<A, B>> = {32, 13, 13, 0};  // min_exponent: of A, of B

/// Returns c + Σ_k a[k * a_stride] b[k] over kSumRule<T>.products k. The factors are numbers of
/// type T. This function is the rule as written above, one sum at a time.
template <class T>
float tensor_core_sum(float c, const float* a, int64_t a_stride, const float* b);

/// D += A B, where a word of 32 bits holds 1 factor of type tf32, 2 of 16 bits or 4 of 8 bits, the
/// first in the low bits. a is [8][ROWS], with word w of each row of A; b is [columns][8]; sums is
/// [columns][ROWS]. Each sum becomes the tensor_core_sum<T> of its row of A and its column of B.
/// ROWS is 16 or 64.
template <class T, int ROWS>
void tensor_core_multiply(float* sums, int columns, const uint32_t* a, const uint32_t* b);
inline constexpr int kWordsAtATime = 8;

/// The same for one column and any number of rows, with factors given as fp32 values that are exact
/// in T. It computes sums[i] = tensor_core_sum<T>(sums[i], a + i, a_stride, b).
template <class T>
void tensor_core_add(float* sums, int rows, const float* a, int64_t a_stride, const float* b);

}  // namespace fa
