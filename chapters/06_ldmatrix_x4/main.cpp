#include "common/kernels/builds.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  const fa::KernelChapter chapter{
      .name = "ch06_ldmatrix_x4",
      .about = "Half the ldmatrix instructions for the same bytes.",
      .emulator = emulator::ch06::forward,
      .gpu = gpu::ch06::forward,
      .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE | fa::PIPELINE_BREAKS,
      .previous_name = "ch05_pipelining",
      .previous_emulator = emulator::ch05::forward,
  };
  return fa::run_kernel_program(chapter, argc, argv);
}
