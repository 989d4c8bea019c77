#include "breaks/ch12_tma.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch12::CHAPTER, argc, argv, CH12_BREAKS);
}
