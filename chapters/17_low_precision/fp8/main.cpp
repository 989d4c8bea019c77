#include "breaks/ch17_fp8.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch17_fp8::CHAPTER, argc, argv, CH17_FP8_BREAKS);
}
