// Chapter 20's training on the CPU in one thread, without its story, which learns from the lessons,
// and without kernels.

#include "chapters/10_backward/chapter.hpp"
#include "chapters/16_maximum_on_demand/chapter.hpp"
#include "chapters/20_train_a_gpt/device_gpt.hpp"
#include "chapters/20_train_a_gpt/story.hpp"
#include "chapters/22_backward_on_hopper/chapter.hpp"
#include "common/error.hpp"
#include "common/kernels/runner.hpp"

// The builds that the chapters' descriptions name. They are empty here.
const fa::KernelBuild emulator::ch08::build{};
const fa::KernelBuild emulator::ch09::build{};
const fa::KernelBuild emulator::ch10::build{};
const fa::KernelBuild emulator::ch15::build{};
const fa::KernelBuild emulator::ch16::build{};
const fa::KernelBuild emulator::ch22::build{};
const fa::KernelBuild gpu::ch09::build{.left_out = "a page has no GPU kernels"};
const fa::KernelBuild gpu::ch10::build{.left_out = "a page has no GPU kernels"};
const fa::KernelBuild gpu::ch16::build{.left_out = "a page has no GPU kernels"};
const fa::KernelBuild gpu::ch22::build{.left_out = "a page has no GPU kernels"};

namespace fa {
namespace {

[[noreturn]] void no_kernels() {
  throw InputError(
      "a page trains without kernels: expected --device cpu and --attention plain or tiled");
}

}  // namespace

EmulatorRun forward_on_emulator(const Kernel&, const Problem&, std::span<float>, std::span<float>,
                                const KernelRun&, const simt::Config&) {
  no_kernels();
}
double forward_on_gpu(const Kernel&, const Problem&, std::span<float>, std::span<float>,
                      const KernelRun&, int) {
  no_kernels();
}
EmulatorRun backward_on_emulator(const Kernel&, const Problem&, const BackwardTensors&,
                                 const KernelRun&, const simt::Config&) {
  no_kernels();
}
double backward_on_gpu(const Kernel&, const Problem&, const BackwardTensors&, const KernelRun&,
                       int) {
  no_kernels();
}

namespace ch20 {

std::unique_ptr<DeviceGpt> make_gpu_gpt(const Recipe&, const AttentionKernels&) { no_kernels(); }
std::unique_ptr<DeviceGpt> make_emulator_gpt(const Recipe&, const AttentionKernels&, bool) {
  no_kernels();
}

int tell_story() { throw InputError("a page has no story: expected train, generate or gradients"); }
int run_bench() { throw InputError("a page does not measure its machine"); }

}  // namespace ch20
}  // namespace fa
