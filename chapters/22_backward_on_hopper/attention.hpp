#pragma once
// Chapter 22: the backward pass on Hopper.
//
// The five products of chapter 10 with wgmma. Consumer warpgroups multiply tiles that a producer
// loads. P and dS stay in registers for dV and dK. dS goes through shared memory for dQ, and the
// copy engine adds dQ to its sum. For sm_90a.
//
//   ch22_backward_on_hopper --shape 1,2,256,256,128 --causal --profile

#include <algorithm>
#include <type_traits>

#include "kernel.hpp"

namespace FA_BACKEND::ch22 {

template <class T, int HEAD_DIM, class Breaks>
void launch_backward(const fa::BackwardArgs& args, Breaks breaks) {
  using L = Layout<HEAD_DIM>;
  Params p = ch10::params_of(args);
  if (args.scale < 1e-30f)
    throw fa::InputError(
        "a scale below 1e-30: LSE / scale may overflow; use a scale of 1e-30 or more");
  // LSE, D and the sum of dQ have rows for whole tiles of this chapter.
  // Packed sequences may each fill their last tile in part, see sequence_of.
  const bool packed = args.q_starts != nullptr;
  const int q_tiles = ceil_div(p.len_q, L::BLOCK_Q) + p.sequences;
  p.kv_tiles += p.sequences;
  const int64_t tiles = int64_t{p.batches} * p.heads * q_tiles;
  const int64_t blocks = int64_t{p.batch_kv_heads} * p.kv_tiles;
  if (std::max(tiles * L::BLOCK_Q, blocks) > std::numeric_limits<int>::max()) {
    throw fa::InputError(std::to_string(tiles * L::BLOCK_Q) + " rows of Q in " +
                         std::to_string(blocks) + " blocks: at most 2147483647 of either");
  }
  p.D = p.LSE_log2 + tiles * L::BLOCK_Q;
  p.dQ_sum = p.D + tiles * L::BLOCK_Q;
  p.summands = p.dQ_sum + tiles * TILE_ELEMENTS;
  p.turns = static_cast<int*>(p.summands) + tiles * L::BLOCK_Q * 4;

  // Each packed sequence has its own alignment, which the kernel adds.
  const int aligned = packed ? 0 : p.len_kv - p.len_q;
  if (args.causal) p.diagonal = aligned;
  if (!args.causal && args.window_right >= 0 && args.window_right < p.len_kv)
    p.diagonal = aligned + static_cast<int>(args.window_right);
  const bool windowed = args.window_left >= 0 && args.window_left < p.len_kv;
  if ((windowed || packed) && !std::is_empty_v<Breaks>)
    throw fa::InputError("--break: this chapter has its breaks without a window or sequences");

  // Chapter 10's kernel computes LSE and D and clears the sum of dQ with its own tile size.
  p.q_tiles = q_tiles * (L::BLOCK_Q / ch10::BLOCK_Q);
  Params prepared = p;
  if (breaks.has(fa::DQ_NOT_CLEARED)) prepared.dQ_sum = nullptr;
  launch(packed ? ch10::preprocess<T, HEAD_DIM, NoBreaks, SummandRows<PackedRows<L::BLOCK_Q>>>
                : ch10::preprocess<T, HEAD_DIM, NoBreaks, SummandRows<ch10::TileRows>>,
         {.grid = p.batches * p.heads * p.q_tiles, .block = 256}, prepared, NoBreaks{});
  ch10::launch_sinks(prepared);
  p.q_tiles = q_tiles;

  // Views a tensor [batch, heads, len, HEAD_DIM] as panels of 64 columns, so that one box is a
  // whole tile.
  const auto map = [](const fa::TensorRef& tensor, int box_rows) {
    const auto [batch, heads, len, dim] = tensor.shape;
    const auto stride_bytes = [&](int d) {  // a dimension of size 1 may have any stride
      return tensor.shape[d] > 1 ? tensor.strides[d] * ELEMENT : int64_t{HEAD_DIM} * ELEMENT;
    };
    return make_tensor_map(static_cast<const T*>(tensor.data),
                           {64, len, HEAD_DIM / 64, heads, batch},
                           {stride_bytes(2), 128, stride_bytes(1), stride_bytes(0)},
                           {64, box_rows, HEAD_DIM / 64, 1, 1}, Swizzle::bytes_128);
  };
  constexpr int BOXES = L::BLOCK_Q / 64;  // of 64 queries, because a box has at most 256 columns
  const TensorMap summands_map =
      make_tensor_map(static_cast<const float*>(p.summands), {256, tiles * BOXES}, {1024},
                      {256, BOXES}, Swizzle::none);

  // [anchor: order]
  // With a mask, the tile of keys that most queries see comes first, so that the last blocks are
  // short. The blocks of up to four heads alternate, as many as have at most 32 MB of Q, dO and
  // fp32 dQ, because these should stay in the L2 cache. Without a mask: head by head.
  const bool masked = windowed || p.diagonal != ch10::EVERY_KEY;
  const int64_t heads_in_L2 = (int64_t{32} << 20) / (int64_t{p.len_q} * HEAD_DIM * 8);
  Order order{.heads_at_once = args.options[0] > 0 ? args.options[0]
                               : masked ? static_cast<int>(std::clamp<int64_t>(heads_in_L2, 1, 4))
                                        : 1,
              .rotation = 0,
              .last_first = false,
              .window_start = windowed ? aligned - static_cast<int>(args.window_left) : NO_START};
  if (p.deterministic) {
    // If all blocks of a head run at the same time, they start at different tiles of queries, and
    // each adds to a tile soon after the previous block. Otherwise the last tile of keys comes
    // first, in the grid and at each tile of dQ.
    const bool together = !masked && !packed && p.kv_tiles <= std::min(q_tiles, multiprocessors());
    order.rotation = together ? q_tiles / p.kv_tiles : 0;
    order.last_first = !together;
  }
  // [/anchor: order]
  auto kernel = p.deterministic ? backward_tiles<T, HEAD_DIM, true, false, false, Breaks>
                                : backward_tiles<T, HEAD_DIM, false, false, false, Breaks>;
  if constexpr (std::is_empty_v<Breaks>) {
    if (packed)  // with a window or without
      kernel = p.deterministic ? backward_tiles<T, HEAD_DIM, true, true, true, Breaks>
                               : backward_tiles<T, HEAD_DIM, false, true, true, Breaks>;
    else if (windowed)
      kernel = p.deterministic ? backward_tiles<T, HEAD_DIM, true, true, false, Breaks>
                               : backward_tiles<T, HEAD_DIM, false, true, false, Breaks>;
  }
  launch(kernel, {.grid = static_cast<int>(blocks), .block = 384, .smem_bytes = L::BYTES},
         map(args.q, L::BLOCK_Q), map(args.k, BLOCK_KV), map(args.v, BLOCK_KV),
         map(args.d_o, L::BLOCK_Q), summands_map, map(args.dk, WARPGROUP_KEYS),
         map(args.dv, WARPGROUP_KEYS), p, order, breaks);
  launch(packed ? convert_dQ<T, HEAD_DIM, true> : convert_dQ<T, HEAD_DIM, false>,
         {.grid = static_cast<int>(tiles), .block = 2 * L::BLOCK_Q, .smem_bytes = TILE_BYTES}, p);
}

// Called by host code: computes dQ, dK and dV of the problem in `args`.
template <class Args>
void backward(const Args& args) {
  const auto with_type = [&](auto head_dim) {
    if (args.breaks != 0) return launch_backward<bf16, head_dim>(args, RuntimeBreaks{args.breaks});
    if (args.q.dtype == fa::Dtype::f16)
      return launch_backward<fa::fp16, head_dim>(args, NoBreaks{});
    launch_backward<bf16, head_dim>(args, NoBreaks{});
  };
  if (args.q.shape[3] == 64) return with_type(std::integral_constant<int, 64>{});
  with_type(std::integral_constant<int, 128>{});
}

}  // namespace FA_BACKEND::ch22
