// Chapter 16's kernel as chapters 21 and 23 call it, with no break. All of it and of chapter 15
// fills the module with kernels that never run.
#include "chapters/16_maximum_on_demand/attention.hpp"
#include "chapters/16_maximum_on_demand/chapter.hpp"

namespace emulator::ch16 {
namespace {

void intact_forward(const fa::ForwardArgs& args) {
  if (args.q.shape[3] == 64) return launch_attention<64, 128>(args, NoBreaks{});
  launch_attention<128, 128>(args, NoBreaks{});
}

}  // namespace

const fa::KernelBuild build{.forward = intact_forward};

}  // namespace emulator::ch16

const fa::KernelBuild emulator::ch15::build{};
