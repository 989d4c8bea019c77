#include "common/kernels/builds.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  const fa::KernelChapter chapter{
      .name = "ch03_basic_kernel",
      .about = "Attention on the tensor cores: cp.async, ldmatrix, mma, softmax in registers.",
      .emulator = emulator::ch03::forward,
      .gpu = gpu::ch03::forward,
      .breaks = fa::BASIC_BREAKS,
  };
  return fa::run_kernel_program(chapter, argc, argv);
}
