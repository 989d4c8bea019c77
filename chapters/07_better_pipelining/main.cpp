#include "breaks/ch07_better_pipelining.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch07::CHAPTER, argc, argv, CH07_BREAKS);
}
