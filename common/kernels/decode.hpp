#pragma once
// The arguments of attention over a KV cache, as plain data that host code passes to a kernel
// build.

#include <cstdint>

#include "common/tensor.hpp"

namespace fa {

constexpr int kMostSplits = 128;     // including those of a prefix
constexpr int kMostTreeTokens = 64;  // a word has a bit for each

// The numbers of parts into which the keys are split, both the shared prefix of all sequences, and
// the own keys of each sequence after it.
struct DecodeSplits {
  int own = 1, prefix = 0;  // prefix is 0 if there is none
  constexpr int parts() const { return own + prefix; }
};

// O = softmax(scale Q K^T) V for the newest queries of each sequence, whose keys and values are in
// a cache. The tensors are in GPU memory or in registered buffers of the emulator, aligned to 16
// bytes.
struct DecodeArgs {
  TensorRef q, o;      // [batch, heads, len_q, dim]
  TensorRef lse = {};  // [batch, heads, len_q, 1], fp32; without data if it is not wanted
  // The cache: [batch, kv_heads, capacity, dim], or with a table [pages, kv_heads, page_size, dim].
  TensorRef k, v;
  // Keys and values that this call appends, [batch, kv_heads, new, dim], or no data.
  TensorRef k_new = {}, v_new = {};
  const int* lengths = nullptr;  // [batch]: cached keys per sequence, or null for the capacity
  const int* table = nullptr;    // [batch, table_columns]: pages of each sequence, in order
  int64_t table_columns = 0;
  int64_t longest = 0;         // longest length that the host knows of, or 0 for the capacity
  float* workspace = nullptr;  // decode_workspace() floats, uninitialized
  float scale = 1;
  bool causal = true;  // query i sees keys up to length - len_q + i, including new ones; if false,
                       // all
  // With a table, the number of leading keys that all sequences have on the same pages, which hold
  // nothing else. They are read for all sequences together.
  int64_t prefix = 0;
  DecodeSplits splits = {};
  const float* sinks = nullptr;  // [heads], as in ForwardArgs
  // [batch, len_q]: bit j of a new token's word says whether it sees new token j, itself or an
  // earlier one. It sees all keys before the new tokens. Null: it sees all earlier new tokens.
  const uint64_t* tree = nullptr;
  uint32_t breaks = 0;  // bits of the chapter's breaks; 0 selects the build without breaks
};

// Returns the floats that the partial results need, which are a row of O and its log-sum-exp for
// each part.
constexpr int64_t decode_workspace(int64_t rows, int64_t dim, const DecodeSplits& splits) {
  return splits.parts() > 1 ? splits.parts() * rows * (dim + 1) : 0;
}

}  // namespace fa
