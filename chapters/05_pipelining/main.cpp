#include "breaks/ch05_pipelining.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch05::CHAPTER, argc, argv, CH05_BREAKS);
}
