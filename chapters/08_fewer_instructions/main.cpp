#include "breaks/ch08_fewer_instructions.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch08::CHAPTER, argc, argv, CH08_BREAKS);
}
