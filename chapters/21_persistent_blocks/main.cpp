#include "breaks/ch21_persistent_blocks.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch21::CHAPTER, argc, argv, CH21_BREAKS);
}
