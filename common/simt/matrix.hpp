#pragma once
// The arithmetic of ldmatrix and mma without threads, and which lane holds which element of a
// matrix.

#include <cstdint>

#include "common/half.hpp"

namespace fa::simt {

inline constexpr int kWarpSize = 32;

/// Loads one matrix of ldmatrix: 8 rows of 8 16-bit elements, where rows[i] points to 16 bytes.
/// Writes registers[lane][slot] for all lanes. The low half holds element (lane/4, 2(lane%4)), the
/// high half element (lane/4, 2(lane%4)+1). If the matrix is transposed, they are elements
/// (2(lane%4), lane/4) and (2(lane%4)+1, lane/4). PTX ISA, "Warp-level matrix load instruction:
/// ldmatrix".
void load_matrix(const unsigned char* const (&rows)[8], bool trans,
                 uint32_t* const (&registers)[kWarpSize], int slot);

/// C += A B. The lanes hold the operands as in PTX ISA, "Matrix Fragments for mma.m16n8k16 with
/// floating point type" (g = lane / 4, t = lane % 4):
///   A [16,16]  a[0] (g, 2t..2t+1)  a[1] (g+8, 2t..)  a[2] (g, 2t+8..)  a[3] (g+8, 2t+8..)
///   B [16, 8]  b[0] (2t..2t+1, g)  b[1] (2t+8.., g)
///   C [16, 8]  c[0] c[1] (g, 2t..2t+1)  c[2] c[3] (g+8, 2t..2t+1)
/// T is the type of A and B, bf16 or fp16. common/tensor_core.hpp describes how the sums are
/// rounded.
template <class T>
void multiply_accumulate(const uint32_t* const (&a)[kWarpSize],
                         const uint32_t* const (&b)[kWarpSize], float* const (&c)[kWarpSize]);

/// C += A B for 8-bit integers, int8_t or uint8_t. Sums wrap modulo 2^32, or stay in the range of
/// int32_t if it saturates. PTX ISA, "Matrix Fragments for
/// mma.m16n8k32" (g = lane / 4, t = lane % 4; four values per register, the first in the low bits):
///   A [16,32]  a[0] (g, 4t..4t+3)  a[1] (g+8, 4t..)  a[2] (g, 4t+16..)  a[3] (g+8, 4t+16..)
///   B [32, 8]  b[0] (4t..4t+3, g)  b[1] (4t+16.., g)
///   C [16, 8]  as above, with int32 in the memory of c
template <class TA, class TB>
void multiply_accumulate_8bit(const uint32_t* const (&a)[kWarpSize],
                              const uint32_t* const (&b)[kWarpSize], void* const (&c)[kWarpSize],
                              bool saturates);

}  // namespace fa::simt
