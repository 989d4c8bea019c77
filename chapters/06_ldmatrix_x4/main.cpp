#include "breaks/ch06_ldmatrix_x4.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch06::CHAPTER, argc, argv, CH06_BREAKS);
}
