#include "common/kernels/builds.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  const fa::KernelChapter chapter{
      .name = "ch04_swizzling",
      .about = "The same kernel without bank conflicts: chunks XORed with their row's number.",
      .emulator = emulator::ch04::forward,
      .gpu = gpu::ch04::forward,
      .breaks = fa::BASIC_BREAKS | fa::SWIZZLE_ONE_SIDE,
      .previous_name = "ch03_basic_kernel",
      .previous_emulator = emulator::ch03::forward,
  };
  return fa::run_kernel_program(chapter, argc, argv);
}
