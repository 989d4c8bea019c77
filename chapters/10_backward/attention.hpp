#pragma once
// Chapter 10: the backward pass on the tensor cores.
//
// Three designs of one loop, each in a file: two_kernels.hpp, one_kernel.hpp, two_roles.hpp. At
// (2,16,8192,8192,128) on an H200 232, 308 and 340 TFLOP/s, FlashAttention-2 295 in the same run
// (docs/measurements/h200/ch10_trial.txt).

#include "one_kernel.hpp"
#include "two_kernels.hpp"
#include "two_roles.hpp"

namespace FA_BACKEND::ch10 {

enum Design { BEST, TWO_KERNELS, ONE_KERNEL, TWO_ROLES };

template <class T, int HEAD_DIM, class Breaks>
void launch_backward(const fa::BackwardArgs& args, Breaks breaks) {
  Params p = params_of(args);
  const int rows_blocks = static_cast<int>(args.q.shape[0]) * p.heads * p.q_tiles;
  const Dim3 key_blocks = grid_of(p);
  constexpr int WARP_KV =
      HEAD_DIM == 64 ? 32 : 16;  // 32 rows of dK and dV would take 256 registers
  constexpr int KEY_THREADS = BLOCK_KV / WARP_KV * WARP_SIZE;
  int design = args.options[0];
  if (design == BEST) design = HEAD_DIM == 64 ? ONE_KERNEL : TWO_ROLES;
  if (design == TWO_KERNELS) p.dQ_sum = nullptr;  // each dQ is summed in registers

  launch(preprocess<T, HEAD_DIM, Breaks>, {.grid = rows_blocks, .block = 256}, p, breaks);
  if (design == TWO_KERNELS) {
    launch(
        key_tiles<T, HEAD_DIM, WARP_KV, false, Breaks>,
        {.grid = key_blocks, .block = KEY_THREADS, .smem_bytes = key_tiles_smem<HEAD_DIM, false>()},
        p, breaks);
    launch(query_tiles<T, HEAD_DIM, Breaks>,
           {.grid = {p.heads, ceil_div(p.len_q, DQ_BLOCK_Q), static_cast<int>(args.q.shape[0])},
            .block = 256,
            .smem_bytes = query_tiles_smem<HEAD_DIM>()},
           p, breaks);
    return;
  }
  if (design == ONE_KERNEL) {
    launch(
        key_tiles<T, HEAD_DIM, WARP_KV, true, Breaks>,
        {.grid = key_blocks, .block = KEY_THREADS, .smem_bytes = key_tiles_smem<HEAD_DIM, true>()},
        p, breaks);
  } else {
    launch(two_roles<T, HEAD_DIM, Breaks>,
           {.grid = key_blocks, .block = 256, .smem_bytes = two_roles_smem<HEAD_DIM>()}, p, breaks);
  }
  launch(postprocess<T, HEAD_DIM>,
         {.grid = rows_blocks,
          .block = BLOCK_Q / MMA_M * WARP_SIZE,
          .smem_bytes = postprocess_smem<HEAD_DIM>()},
         p);
}

// What host code calls: dQ, dK and dV of whatever `args` describe.
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
