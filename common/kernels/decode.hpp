#pragma once
// The plain data of attention over a cache, as it crosses from host code into a kernel build.

#include <cstdint>

#include "common/tensor.hpp"

namespace fa {

constexpr int kMostSplits = 128;  // with those of a prefix

// Into how many parts the keys are cut: those of the prefix that all sequences share, and of each
// sequence those behind it.
struct DecodeSplits {
  int own = 1, prefix = 0;  // prefix: 0 if there is none
  constexpr int parts() const { return own + prefix; }
};

// O = softmax(scale Q K^T) V for the newest queries of each sequence, whose keys and values lie in
// a cache. The tensors lie in GPU memory, or in registered buffers of the emulator, at multiples of
// 16 bytes.
struct DecodeArgs {
  TensorRef q, o;      // [batch, heads, len_q, dim]
  TensorRef lse = {};  // [batch, heads, len_q, 1], fp32; without data: not wanted
  // The cache: [batch, kv_heads, capacity, dim]; with a table [pages, kv_heads, page_size, dim].
  TensorRef k, v;
  // Keys that this call appends: [batch, kv_heads, new, dim]; without data: none.
  TensorRef k_new = {}, v_new = {};
  const int* lengths = nullptr;  // [batch]: keys of each sequence in the cache; null: the capacity
  const int* table = nullptr;    // [batch, table_columns]: a sequence's pages, in order
  int64_t table_columns = 0;
  int64_t longest = 0;         // of the lengths, as far as the host knows; 0: the capacity
  float* workspace = nullptr;  // decode_workspace() numbers, of any value
  float scale = 1;
  bool causal = true;  // query i sees keys up to length - len_q + i, new ones counted; else all
  // With a table: the first so many keys of all sequences are on the same pages, which hold nothing
  // else. They are read for all sequences at once.
  int64_t prefix = 0;
  DecodeSplits splits = {};
  uint32_t breaks = 0;  // bits of the chapter's breaks; 0 runs the build that has none compiled in
};

// So many floats do the partial results take: a row of O and its log-sum-exp each.
constexpr int64_t decode_workspace(int64_t rows, int64_t dim, const DecodeSplits& splits) {
  return splits.parts() > 1 ? splits.parts() * rows * (dim + 1) : 0;
}

}  // namespace fa
