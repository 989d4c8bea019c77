#include "breaks/ch16_maximum_on_demand.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch16::CHAPTER, argc, argv, CH16_BREAKS);
}
