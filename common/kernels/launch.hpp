#pragma once
// From the host's arguments to a running kernel.

#include <algorithm>
#include <limits>
#include <string>

#include "common/error.hpp"
#include "common/kernels/geometry.hpp"

namespace FA_BACKEND {

// [anchor: launch]
// One block of NUM_WARPS warps for each BLOCK_Q query rows of each head.
template <int BLOCK_Q, int NUM_WARPS, class Kernel, class Breaks>
void launch_forward(Kernel kernel, const fa::ForwardArgs& args, size_t smem_bytes, Breaks breaks) {
  const int64_t num_blocks = int64_t{args.batch_heads} * ceil_div(args.len_q, BLOCK_Q);
  if (num_blocks > std::numeric_limits<int>::max()) {
    throw fa::InputError("batch x heads x Lq needs " + std::to_string(num_blocks) +
                         " blocks; a grid holds at most 2147483647");
  }
  launch(kernel, static_cast<int>(num_blocks), NUM_WARPS * WARP_SIZE, smem_bytes, args.Q, args.K,
         args.V, args.O, args.len_q, args.len_kv, args.scale, breaks);
}
// [/anchor: launch]

// Calls run(head_dim, breaks) with the head size as a compile-time constant and with the build that
// the arguments ask for: none broken, or those of args.breaks.
template <class Run>
void dispatch(const fa::ForwardArgs& args, Run run) {
  const auto with_breaks = [&](auto head_dim) {
    if (args.breaks == 0) return run(head_dim, NoBreaks{});
    return run(head_dim, RuntimeBreaks{args.breaks});
  };
  if (args.head_dim == 64) return with_breaks(std::integral_constant<int, 64>{});
  if (args.head_dim == 128) return with_breaks(std::integral_constant<int, 128>{});
  throw fa::InputError("head size " + std::to_string(args.head_dim) +
                       ": these kernels take 64 and 128");
}

}  // namespace FA_BACKEND
