#pragma once
// Chapter 10: the backward pass on the tensor cores.
//
// Three designs of one loop, each in its own file, which are two_kernels.hpp, one_kernel.hpp,
// two_roles.hpp. At (2,16,8192,8192,128) on an H200 they reach 235, 298 and 382 TFLOP/s, and
// FlashAttention-2 reaches 289 in the same run.
//
//   ch10_backward --shape 1,2,200,300,128 --causal --profile

#include <type_traits>

#include "design.hpp"
#include "one_kernel.hpp"
#include "two_kernels.hpp"
#include "two_roles.hpp"

namespace FA_BACKEND::ch10 {

using namespace ::ch10;  // Design

template <class T, int HEAD_DIM, class Breaks>
void launch_backward(const fa::BackwardArgs& args, Breaks breaks) {
  Params p = params_of(args);
  const int q_blocks = p.batches * p.heads * p.q_tiles;
  const Dim3 kv_blocks = grid_of(p);
  constexpr Design BEST_HERE = FASTEST[std::is_same_v<T, fa::fp16>][HEAD_DIM > 64];
  constexpr std::integral_constant<int, BEST_HERE == ONE_KERNEL ? 32 : 16> warp_keys;
  const int design = args.options[0] == BEST ? BEST_HERE : args.options[0];
  if (design == TWO_KERNELS) p.dQ_sum = nullptr;  // each dQ is summed in registers

  launch(preprocess<T, HEAD_DIM, Breaks>, {.grid = q_blocks, .block = 256}, p, breaks);
  launch_sinks(p);
  const auto launch_keys = [&](auto warp_kv, auto with_dq) {
    launch(key_tiles<T, HEAD_DIM, warp_kv, with_dq, Breaks>,
           {.grid = kv_blocks,
            .block = BLOCK_KV / warp_kv * WARP_SIZE,
            .smem_bytes = key_tiles_smem<HEAD_DIM, with_dq>()},
           p, breaks);
  };
  if (design == TWO_KERNELS) {
    launch_keys(std::integral_constant<int, 16>{}, std::false_type{});
    launch(query_tiles<T, HEAD_DIM, Breaks>,
           {.grid = {p.heads, ceil_div(p.len_q, DQ_BLOCK_Q), p.batches},
            .block = 256,
            .smem_bytes = query_tiles_smem<HEAD_DIM>()},
           p, breaks);
    return;
  }
  if (design == ONE_KERNEL) {
    launch_keys(warp_keys, std::true_type{});
  } else {
    launch(two_roles<T, HEAD_DIM, Breaks>,
           {.grid = kv_blocks, .block = 256, .smem_bytes = two_roles_smem<HEAD_DIM>()}, p, breaks);
  }
  launch(postprocess<T, HEAD_DIM>,
         {.grid = q_blocks,
          .block = BLOCK_Q / MMA_M * WARP_SIZE,
          .smem_bytes = postprocess_smem<HEAD_DIM>()},
         p);
}

// Called by host code. Computes dQ, dK and dV of the problem in `args`.
template <class Args>
void backward(const Args& args) {
  const auto with_type = [&](auto head_dim) {
    if (args.breaks != 0) return launch_backward<bf16, head_dim>(args, RuntimeBreaks{args.breaks});
    if (args.q.dtype == fa::Dtype::f16)
      return launch_backward<fa::fp16, head_dim>(args, NoBreaks{});
    launch_backward<bf16, head_dim>(args, NoBreaks{});
  };
  if (args.q.shape[3] <= 64) return with_type(std::integral_constant<int, 64>{});
  with_type(std::integral_constant<int, 128>{});
}

}  // namespace FA_BACKEND::ch10
