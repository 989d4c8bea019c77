#include "common/kernels/builds.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  const fa::KernelChapter chapter{
      .name = "ch05_pipelining",
      .about = "Loads the next tile while computing this one.",
      .emulator = emulator::ch05::forward,
      .gpu = gpu::ch05::forward,
      .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
      .previous_name = "ch04_swizzling",
      .previous_emulator = emulator::ch04::forward,
      .max_stages = 4,
  };
  return fa::run_kernel_program(chapter, argc, argv);
}
