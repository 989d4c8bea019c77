// Chapter 09's kernel as chapters 10, 11, 17 and 22 call it, with no modifier and no break, for
// head sizes up to 128. All of it and of chapter 08 fills a module with kernels that never run.
#include "chapters/09_masks_and_shapes/attention.hpp"
#include "chapters/09_masks_and_shapes/chapter.hpp"

namespace emulator::ch09 {
namespace {

void intact_forward(const fa::ForwardArgs& args) {
  const auto with_size = [&](auto head_dim) {
    if (args.q.dtype == fa::Dtype::f16) {
      return launch_attention<head_dim, fa::fp16>(args, NoBreaks{});
    }
    launch_attention<head_dim>(args, NoBreaks{});
  };
  if (args.q.shape[3] <= 64) return with_size(std::integral_constant<int, 64>{});
  with_size(std::integral_constant<int, 128>{});
}

}  // namespace

const fa::KernelBuild build{.forward = intact_forward};

}  // namespace emulator::ch09

const fa::KernelBuild emulator::ch08::build{};
