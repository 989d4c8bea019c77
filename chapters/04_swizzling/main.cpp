#include "breaks/ch04_swizzling.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch04::CHAPTER, argc, argv, CH04_BREAKS);
}
