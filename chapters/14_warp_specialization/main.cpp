#include "breaks/ch14_warp_specialization.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch14::CHAPTER, argc, argv, CH14_BREAKS);
}
