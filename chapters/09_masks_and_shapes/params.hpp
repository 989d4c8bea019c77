#pragma once
// The parameters of the kernel, made from the host's arguments, and the view of one block.

#include <bit>
#include <string>

#include "chapters/09_masks_and_shapes/mask.hpp"
#include "common/kernels/launch.hpp"

namespace FA_BACKEND::ch09 {

constexpr int ELEMENT = 2;  // bytes of a bf16 or an fp16

// [anchor: params]
// A tensor [batch, heads, len, dim] whose rows, heads and batches may be any number of bytes apart.
// A row itself is contiguous.
struct Tensor {
  char* data;
  int64_t batch, head;
  uint32_t row;
};

struct Params {
  Tensor Q, K, V, O;                // K and V have heads / group
  float* LSE;                       // [batch, heads, len_q], or null
  int64_t LSE_head;                 // elements from one head to the next
  const int *q_starts, *kv_starts;  // if packed, sequence n is rows [starts[n], starts[n + 1])
  int heads, group;                 // `group` consecutive query heads share a head of K and V
  int len_q, dim;                   // dim is up to HEAD_DIM, and columns past it are zeros
  float scale;
  Modifiers modifiers;
  const float* sinks;  // [heads], or null
  Mask mask;
};
// [/anchor: params]

// [anchor: sequence]
// The queries and keys that a block processes, either those of a batch, or one of the packed
// sequences.
struct Sequence {
  int64_t Q_start, K_start, V_start, O_start;  // bytes before its first row
  int64_t LSE_start;                           // elements
  int len_q;
  Mask mask;
};

template <class Breaks>
FA_DEVICE Sequence sequence_of(const Params& p, int index, Breaks breaks) {
  if (p.q_starts == nullptr) {
    return {index * p.Q.batch,
            index * p.K.batch,
            index * p.V.batch,
            index * p.O.batch,
            index * p.LSE_head * p.heads,
            p.len_q,
            p.mask};
  }
  const int at = index + (breaks.has(fa::LATE_SEQUENCE) ? 1 : 0);
  const int64_t q = load_global(p.q_starts + at), kv = load_global(p.kv_starts + at);
  const int len_q = load_global(p.q_starts + at + 1) - static_cast<int>(q);
  Mask mask = p.mask;
  mask.len_kv = load_global(p.kv_starts + at + 1) - static_cast<int>(kv);
  mask.diagonal = breaks.has(fa::TOP_LEFT) ? 0 : mask.len_kv - len_q;
  return {q * p.Q.row, kv * p.K.row, kv * p.V.row, q * p.O.row, q, len_q, mask};
}
// [/anchor: sequence]

// Throws InputError for problems that this kernel cannot address.
inline Params params_of(const fa::ForwardArgs& args) {
  if (args.breaks != 0 && args.q.dtype != fa::Dtype::bf16) {
    throw fa::InputError("--break: this chapter has its breaks in bf16 only");
  }
  check_scale_and_strides(args.scale, {&args.q, &args.k, &args.v, &args.o});
  const auto tensor = [](const fa::TensorRef& ref) {
    return Tensor{static_cast<char*>(ref.data), ref.strides[0] * ELEMENT, ref.strides[1] * ELEMENT,
                  static_cast<uint32_t>(ref.strides[2] * ELEMENT)};
  };
  const auto limit = [](int64_t side) {
    return side < 0 || side > UNLIMITED ? UNLIMITED : static_cast<int>(side);
  };
  const int heads = static_cast<int>(args.q.shape[1]), len_q = static_cast<int>(args.q.shape[2]);
  const int len_kv = static_cast<int>(args.k.shape[2]);
  const int diagonal = args.breaks & fa::TOP_LEFT ? 0 : len_kv - len_q;
  int left = limit(args.window_left);
  if ((args.breaks & fa::WINDOW_OFF_BY_ONE) && left != UNLIMITED) --left;
  return {.Q = tensor(args.q),
          .K = tensor(args.k),
          .V = tensor(args.v),
          .O = tensor(args.o),
          .LSE = static_cast<float*>(args.lse.data),
          .LSE_head = args.q.shape[2],
          .q_starts = args.q_starts,
          .kv_starts = args.kv_starts,
          .heads = heads,
          .group = static_cast<int>(args.q.shape[1] / args.k.shape[1]),
          .len_q = len_q,
          .dim = static_cast<int>(args.q.shape[3]),
          .scale = args.scale,
          .modifiers = {args.softcap,
                        args.alibi ? static_cast<int>(std::bit_floor(static_cast<unsigned>(heads)))
                                   : 0},
          .sinks = args.sinks,
          .mask = {len_kv, diagonal, left, limit(args.window_right)}};
}

// Returns a grid with a block for each head, each tile of the longest sequence, each sequence.
inline Dim3 grid_of(const fa::ForwardArgs& args, int block_q) {
  const int64_t longest = args.q_starts ? args.longest_q : args.q.shape[2];
  const int64_t tiles = (longest + block_q - 1) / block_q;
  const int64_t sequences = args.q_starts ? args.sequences : args.q.shape[0];
  constexpr int64_t MOST = 65535;  // limit of a grid's second and third dimension
  if (tiles > MOST || sequences > MOST) {
    throw fa::InputError(std::to_string(tiles) + " tiles of " + std::to_string(block_q) +
                         " queries, " + std::to_string(sequences) +
                         " sequences: up to 65535 of each in this chapter");
  }
  return {static_cast<int>(args.q.shape[1]), static_cast<int>(tiles > 0 ? tiles : 1),
          static_cast<int>(sequences)};
}

}  // namespace FA_BACKEND::ch09
