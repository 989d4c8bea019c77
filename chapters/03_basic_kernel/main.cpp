#include "breaks/ch03_basic_kernel.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch03::CHAPTER, argc, argv, CH03_BREAKS);
}
