#include "self_attention.hpp"

#include "chapters/16_maximum_on_demand/chapter.hpp"
#include "chapters/22_backward_on_hopper/chapter.hpp"
#include "common/error.hpp"
#include "kernel_attention.hpp"
#include "plain_attention.hpp"
#if FA_RING
#include "ring_attention.hpp"
#endif
#include "tiled_attention.hpp"

namespace fa::ch20 {

AttentionKernels kernels_of(const std::string& name) {
  return {name == "ch10" ? ::ch09::KERNEL : ::ch16::KERNEL,
          name == "ch22" ? ::ch22::KERNEL : ::ch10::KERNEL};
}

std::string gpu_problem(const AttentionKernels& kernels) {
  const std::string why = fa::gpu_problem(*kernels.forward.gpu);
  return why.empty() ? fa::gpu_problem(*kernels.backward.gpu) : why;
}

void check_shape(const AttentionKernels& kernels, const Shape& shape) {
  kernels.forward.check_shape(shape);
  kernels.backward.check_shape(shape);
}

void check_attention(const AttentionChoice& choice, const AttentionShape& shape) {
  if (choice.name == "ch19" && !FA_RING) {
    throw InputError("--attention ch19: this build left chapter 19 out");
  }
  if (!is_kernel(choice.name)) return;
  check_shape(kernels_of(choice.name),
              {shape.batch, shape.heads, shape.length, shape.length, shape.dim});
}

template <class R>
std::unique_ptr<Attention<R>> make_attention(const AttentionChoice& choice,
                                             const AttentionShape& shape) {
  check_attention(choice, shape);
  if (choice.name != "tiled" && choice.breaks != 0) {
    throw InputError("--break: accepted with --attention tiled");
  }
  if (choice.name == "plain") return std::make_unique<PlainAttention<R>>(shape);
  if (is_kernel(choice.name)) {
    return std::make_unique<KernelAttention<R>>(shape, kernels_of(choice.name));
  }
#if FA_RING
  if (choice.name == "ch19") return std::make_unique<RingAttention<R>>(shape);
#endif
  if (choice.name != "tiled") {
    throw InputError("--attention " + choice.name +
                     ": accepted: plain, tiled, ch10, ch16, ch19, ch22");
  }
  if (choice.breaks == 0) {
    return std::make_unique<TiledAttention<R, Intact>>(shape, choice.block, Intact{});
  }
  return std::make_unique<TiledAttention<R, Broken>>(shape, choice.block, Broken{choice.breaks});
}

// [anchor: bytes]
int64_t attention_bytes(const AttentionChoice& choice, const AttentionShape& shape,
                        int64_t layers) {
  const int64_t heads = shape.batch * shape.heads, length = shape.length;
  const int64_t threads = std::min<int64_t>(hardware_threads(), heads);
  const int64_t block = std::min(choice.block, length), tensor = heads * length * shape.dim;
  const bool packed = is_kernel(choice.name) || choice.name == "ch19";
  const int64_t numbers = choice.name == "plain" ? (layers * heads + threads) * length * length
                          : packed ? layers * (5 * tensor + heads * length) + 3 * tensor
                                   : layers * (2 * heads * length + threads * 2 * block * block);
  return numbers * static_cast<int64_t>(sizeof(float));
}
// [/anchor: bytes]

template std::unique_ptr<Attention<float>> make_attention(const AttentionChoice&,
                                                          const AttentionShape&);
template std::unique_ptr<Attention<double>> make_attention(const AttentionChoice&,
                                                           const AttentionShape&);

}  // namespace fa::ch20
