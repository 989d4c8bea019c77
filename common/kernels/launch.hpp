#pragma once
// Launches a forward kernel from the host's arguments, as chapters 03 to 08 do.

#include <initializer_list>
#include <limits>
#include <string>

#include "common/error.hpp"
#include "common/kernels/geometry.hpp"
#include "common/parse.hpp"

namespace FA_BACKEND {

// [anchor: launch]
// Returns the number of blocks, one per block_q query rows of each head.
inline int num_blocks(const fa::ForwardArgs& args, int block_q) {
  const auto [batch, heads, len_q, head_dim] = args.q.shape;
  const int64_t blocks = batch * heads * ((len_q + block_q - 1) / block_q);
  if (blocks > std::numeric_limits<int>::max()) {
    throw fa::InputError("batch x heads x Lq needs " + std::to_string(blocks) +
                         " blocks; a grid holds at most 2147483647");
  }
  return static_cast<int>(blocks);
}

template <int BLOCK_Q, int NUM_WARPS, class Kernel, class Breaks>
void launch_forward(Kernel kernel, const fa::ForwardArgs& args, size_t smem_bytes, Breaks breaks) {
  const auto data = [](const fa::TensorRef& tensor) { return static_cast<bf16*>(tensor.data); };
  launch(kernel, num_blocks(args, BLOCK_Q), NUM_WARPS * WARP_SIZE, smem_bytes, data(args.q),
         data(args.k), data(args.v), data(args.o), static_cast<int>(args.q.shape[2]),
         static_cast<int>(args.k.shape[2]), args.scale, breaks);
}
// [/anchor: launch]

// Throws InputError unless the scale is positive. Used since chapter 08.
inline void check_scale(float scale) {
  if (scale > 0) return;
  throw fa::InputError("--scale " + fa::shown(scale) +
                       ": this chapter takes the maximum before it scales, which needs a positive "
                       "scale");
}

// Throws InputError unless the scale is positive and the rows of all tensors are contiguous, start
// at multiples of 16 bytes, and are within 4 GB of the first row of their head. Used since chapter
// 09.
inline void check_scale_and_strides(float scale,
                                    std::initializer_list<const fa::TensorRef*> tensors) {
  check_scale(scale);
  for (const fa::TensorRef* tensor : tensors) {
    const auto& stride = tensor->strides;
    for (int d = 0; d < 4; ++d) {
      const bool whole_chunks = d == 3 ? stride[d] == 1 : stride[d] % 8 == 0;
      if (tensor->shape[d] > 1 && !whole_chunks) {
        throw fa::InputError("a stride of " + std::to_string(stride[d]) + " in dimension " +
                             std::to_string(d) +
                             ": rows must be contiguous, and all begin at multiples of 16 bytes");
      }
    }
    if (tensor->shape[2] * stride[2] >= int64_t{1} << 31)
      throw fa::InputError("a head of 4 GB or more from its first row to its last");
  }
}

// Calls run(head_dim, breaks) with the head size as a compile-time constant and with the build that
// the arguments select, which is the one without breaks, or the one that tests args.breaks.
template <class Run>
void dispatch(const fa::ForwardArgs& args, Run run) {
  const auto with_breaks = [&](auto head_dim) {
    if (args.breaks == 0) return run(head_dim, NoBreaks{});
    return run(head_dim, RuntimeBreaks{args.breaks});
  };
  const int64_t head_dim = args.q.shape[3];
  if (head_dim == 64) return with_breaks(std::integral_constant<int, 64>{});
  if (head_dim == 128) return with_breaks(std::integral_constant<int, 128>{});
  throw fa::InputError("head size " + std::to_string(head_dim) + ": these kernels take 64 and 128");
}

}  // namespace FA_BACKEND
