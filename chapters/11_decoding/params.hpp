#pragma once
// The parameters of the kernels, made from the host's arguments.

#include "chapters/11_decoding/breaks.hpp"
#include "common/kernels/decode.hpp"
#include "common/kernels/launch.hpp"
#include "common/kernels/mask.hpp"

namespace FA_BACKEND::ch11 {

constexpr int ELEMENT = 2;  // bytes of a bf16 or an fp16
constexpr int MOST_SPLITS = fa::kMostSplits;

// A tensor [batch, heads, len, dim] with any distance between rows, heads and batches, in bytes.
// For K and V with a table, a batch is a page.
struct Tensor {
  char* data;
  int64_t batch, head;
  uint32_t row;
};

struct Params {
  Tensor Q, K, V, K_new, V_new, O;
  float* LSE;          // [batch, heads, len_q], or null
  float* partial_O;    // [parts, batch, heads, len_q, HEAD_DIM]
  float* partial_LSE;  // [parts, batch, heads, len_q]
  const float* sinks;  // [heads], or null
  const int* lengths;  // [batch], or null
  const int* table;    // [batch, table_columns]
  int table_columns, page_size;
  int batches, heads, group, len_q, len_kv, len_new, dim;
  // The keys at `first_key` and above; their results are the parts from `first_part`.
  int splits, first_key, first_part, parts;
  int sequences;  // sequences whose rows share a tile: 1, or all, whose keys are then the same
  float scale;
  bool causal;
  const uint64_t* tree;  // [batch, len_q]: which new tokens each of them sees, or null
};

// Throws InputError for problems that these kernels cannot address.
inline Params params_of(const fa::DecodeArgs& args) {
  if (args.breaks != 0 && args.q.dtype != fa::Dtype::bf16) {
    throw fa::InputError("--break: this chapter has its breaks in bf16 only");
  }
  if (args.splits.parts() > 1 && !args.workspace)
    throw fa::InputError("splits without a workspace");
  check_scale_and_strides(args.scale,
                          {&args.q, &args.k, &args.v, &args.o, &args.k_new, &args.v_new});
  const auto tensor = [](const fa::TensorRef& ref) {
    return Tensor{static_cast<char*>(ref.data), ref.strides[0] * ELEMENT, ref.strides[1] * ELEMENT,
                  static_cast<uint32_t>(ref.strides[2] * ELEMENT)};
  };
  const auto [batch, heads, len_q, dim] = args.q.shape;
  return {
      .Q = tensor(args.q),
      .K = tensor(args.k),
      .V = tensor(args.v),
      .K_new = tensor(args.k_new),
      .V_new = tensor(args.v_new),
      .O = tensor(args.o),
      .LSE = static_cast<float*>(args.lse.data),
      .partial_O = args.workspace,
      .partial_LSE = args.workspace + int64_t{args.splits.parts()} * batch * heads * len_q * dim,
      .sinks = args.sinks,
      .lengths = args.lengths,
      .table = args.table,
      .table_columns = static_cast<int>(args.table_columns),
      .page_size = static_cast<int>(args.k.shape[2]),
      .batches = static_cast<int>(batch),
      .heads = static_cast<int>(heads),
      .group = static_cast<int>(heads / args.k.shape[1]),
      .len_q = static_cast<int>(len_q),
      .len_kv = static_cast<int>(args.k.shape[2]),
      .len_new = static_cast<int>(args.k_new.shape[2]),
      .dim = static_cast<int>(dim),
      .splits = args.splits.own,
      .first_key = static_cast<int>(args.prefix),
      .first_part = args.splits.prefix,
      .parts = args.splits.parts(),
      .sequences = 1,
      .scale = args.scale,
      .causal = args.causal,
      .tree = args.tree};
}

// [anchor: prefix]
// Returns the parameters of the pass over the shared keys, with the rows of all sequences.
inline Params prefix_params(const fa::DecodeArgs& args) {
  Params params = params_of(args);
  params.lengths = nullptr;
  params.len_kv = params.first_key;
  params.len_new = 0;
  params.causal = false;
  params.tree = nullptr;
  params.splits = args.splits.prefix;
  params.first_key = params.first_part = 0;
  params.sequences = params.batches;
  return params;
}
// [/anchor: prefix]

}  // namespace FA_BACKEND::ch11
