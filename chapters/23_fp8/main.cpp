#include "breaks/ch23_fp8.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch23::CHAPTER, argc, argv, CH23_BREAKS);
}
