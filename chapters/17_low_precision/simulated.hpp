#pragma once
// Simulates attention in 8 and 4 bits on the CPU. Each scheme rounds and sums as its kernel would.

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

// The part that shares a scale: everything; 128 queries and 64 keys; 32 queries and 64 keys; or, as
// in SageAttention2, the rows of a fragment that one thread holds: those of 32 queries that are
// equal modulo 8, and those of 64 keys that form a pair modulo 8.
enum class Grain { TENSOR, BLOCK, WARP, THREAD };

struct Scheme {
  std::string name = {};
  Format qk = Format::BF16;
  Grain grain = Grain::TENSOR;  // for INT8 and E4M3
  bool smooth = false;          // K loses its mean over the keys, which softmax does not see
  bool hadamard = false;        // Q and K are rotated alike, which leaves Q Kᵀ unchanged
  Format pv = Format::BF16;     // for P and V
  float p_largest = 1;          // E4M3: value of the weight 1
  int stay = 1;                 // E4M3: tiles of 64 keys that O stays in the tensor core before it
                                // is added to sums in fp32, or 0 for all
  bool smooth_v = false;        // E4M3: V loses its mean, which is added to O at the end
  double cited = 0;             // RMSE in FlashAttention-3's paper, Table 3, or 0 if not listed
};

std::span<const Scheme> schemes();

// Returns O = softmax(Q Kᵀ / √dim) V for the queries `rows`, in float64: [rows, dim].
std::vector<double> exact_attention(const Head& head, std::span<const int64_t> rows);

// Returns the same as `scheme` computes it. The signs of the rotation come from `seed`. Q Kᵀ is
// exact for INT8 and the block formats, and the tensor core's for E4M3. P is rounded relative to
// the running maximum, and its sum uses the weights before rounding. O is fp32, and bf16 at the end
// (fp16 for FP16). Throws InputError if the rotation is impossible, because dim must be a power of
// two.
std::vector<float> low_precision_attention(const Scheme& scheme, const Head& head,
                                           std::span<const int64_t> rows, uint64_t seed);

// Steps of the function above, on rows of `dim` elements, in place.
// Subtracts the mean of each column and returns the means.
std::vector<float> smooth(std::span<float> k, int64_t dim);
// Multiplies each row by random signs, then by the Walsh-Hadamard matrix / √dim.
void rotate(std::span<float> x, int64_t dim, uint64_t seed);
// For INT8 or E4M3, stores the multiples of the scales and returns the scale of each row.
std::vector<float> quantize(std::span<float> x, int64_t dim, Format format, Grain grain,
                            bool is_query);

}  // namespace ch17
