#pragma once
// Tiled attention in FlashAttention-2's order, written for the speed of a CPU's vector units.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/tensor.hpp"

namespace ch02 {

// o = softmax(q @ k.T * scale) @ v over [B, H, L, D]; lse [B, H, Lq] may be null. A row with no
// visible key gets o = 0 and lse = -inf. At most `threads` threads (0: all), fewer for little work;
// the bits do not depend on it.
void fast_attention(const float* q, const float* k, const float* v, float* o, float* lse,
                    const fa::Shape& shape, double scale, bool causal, int threads);

// Bytes that one thread needs beyond inputs and outputs; the lengths do not enter.
int64_t fast_scratch_bytes(int64_t dim);

// y[i] = 2^x[i] for x <= 127, as the kernel computes it: below 2^-126 exactly 0, NaN stays NaN.
void fast_exp2(std::span<const float> x, std::span<float> y);

// The instruction set that run-time dispatch chose: "AVX3" is Highway's name for AVX-512.
std::string fast_target_name();

// Those compiled in that this machine can run, best first, and a way to insist on one of them
// ("" for the best again). Process-wide, for tests and benchmarks; throws InputError if unknown.
std::vector<std::string> fast_targets();
void force_fast_target(const std::string& name);

}  // namespace ch02
