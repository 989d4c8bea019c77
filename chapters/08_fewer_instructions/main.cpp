#include "common/kernels/builds.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  const fa::KernelChapter chapter{
      .name = "ch08_fewer_instructions",
      .about = "32 query rows a warp, and a softmax without what it does not need.",
      .emulator = emulator::ch08::forward,
      .gpu = gpu::ch08::forward,
      .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
      .previous_name = "ch07_better_pipelining",
      .previous_emulator = emulator::ch07::forward,
  };
  return fa::run_kernel_program(chapter, argc, argv);
}
