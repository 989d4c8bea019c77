#pragma once
// Attention in 8 and 4 bits, simulated on the CPU: each scheme rounds what its kernel would round,
// and sums as it would sum.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ch17 {

// One head. Q is [queries, dim], K and V are [keys, dim].
struct Head {
  int64_t queries = 0, keys = 0, dim = 0;
  std::vector<float> q, k, v;
};

enum class Format { BF16, FP16, INT8, E4M3, MXFP8, NVFP4 };

// What shares a scale: everything; 128 queries and 64 keys; 32 queries and 64 keys; or, as
// SageAttention2 has it, those rows of a tensor core's fragment that one thread holds: of 32
// queries those that are alike modulo 8, of 64 keys those that are a pair modulo 8.
enum class Grain { TENSOR, BLOCK, WARP, THREAD };

struct Scheme {
  std::string name = {};
  Format qk = Format::BF16;
  Grain grain = Grain::TENSOR;  // of INT8 and E4M3
  bool smooth = false;          // K loses its mean over the keys: softmax does not see it
  bool hadamard = false;        // Q and K are rotated alike: Q Kᵀ stays
  Format pv = Format::BF16;     // of P and V
  float p_largest = 1;          // E4M3: what the weight 1 becomes
  int stay = 1;                 // E4M3: tiles of 64 keys that O stays in the tensor core, before it
                                // moves to sums in fp32; 0: it stays
  bool smooth_v = false;        // E4M3: V loses its mean, and O gets it back
  double cited = 0;             // RMSE in FlashAttention-3's paper, Table 3; 0: not there
};

std::span<const Scheme> schemes();

// O = softmax(Q Kᵀ / √dim) V of the queries `rows`, in float64: [rows, dim].
std::vector<double> exact_attention(const Head& head, std::span<const int64_t> rows);

// The same as `scheme` computes it. Signs of the rotation come from `seed`. Q Kᵀ of INT8 and of the
// block formats is exact, of E4M3 the tensor core's; P is rounded against the maximum so far, its
// sum is of the weights before rounding; O is fp32, and at the end bf16 (FP16: fp16). Throws
// InputError if the rotation has no size: dim must be a power of two.
std::vector<float> low_precision_attention(const Scheme& scheme, const Head& head,
                                           std::span<const int64_t> rows, uint64_t seed);

// Steps of the above, on rows of `dim` numbers, in place.
// The mean of each column, which it takes off.
std::vector<float> smooth(std::span<float> k, int64_t dim);
// Multiplies each row by random signs, then by the Walsh-Hadamard matrix / √dim.
void rotate(std::span<float> x, int64_t dim, uint64_t seed);
// INT8 or E4M3: leaves the multiples of the scales; returns the scale of each row.
std::vector<float> quantize(std::span<float> x, int64_t dim, Format format, Grain grain,
                            bool is_query);

}  // namespace ch17
