#pragma once
// Tiled attention in FlashAttention-2's order, optimized for the vector units of a CPU.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/tensor.hpp"

namespace ch02 {

// o = softmax(q @ k.T * scale) @ v over [B, H, L, D]
// lse [B, H, Lq] may be null. A row with no visible key gets o = 0 and lse = -inf. Uses at most
// `threads` threads (0 means all), and fewer if there is little work. The result has the same bits
// for any number of threads.
void fast_attention(const float* q, const float* k, const float* v, float* o, float* lse,
                    const fa::Shape& shape, double scale, bool causal, int threads);

// Returns the bytes that one thread needs beyond inputs and outputs. They do not depend on the
// lengths.
int64_t fast_scratch_bytes(int64_t dim);

// y[i] = 2^x[i] for x <= 127, as the kernel computes it. A result below 2^-126 is exactly 0, and
// NaN stays NaN.
void fast_exp2(std::span<const float> x, std::span<float> y);

// Returns the instruction set that run-time dispatch selected. "AVX3" is Highway's name for
// AVX-512.
std::string fast_target_name();

// fast_targets() returns the compiled instruction sets that this machine supports, best first.
// force_fast_target() selects one of them for the whole process, for tests and benchmarks (""
// selects the best again). Throws InputError if the name is unknown.
std::vector<std::string> fast_targets();
void force_fast_target(const std::string& name);

}  // namespace ch02
