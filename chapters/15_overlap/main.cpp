#include "breaks/ch15_overlap.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch15::CHAPTER, argc, argv, CH15_BREAKS);
}
