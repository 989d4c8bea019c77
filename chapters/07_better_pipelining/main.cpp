#include "common/kernels/builds.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  const fa::KernelChapter chapter{
      .name = "ch07_better_pipelining",
      .about = "Only K needs two buffers, and the tile grows back.",
      .emulator = emulator::ch07::forward,
      .gpu = gpu::ch07::forward,
      .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
      .previous_name = "ch06_ldmatrix_x4",
      .previous_emulator = emulator::ch06::forward,
  };
  return fa::run_kernel_program(chapter, argc, argv);
}
