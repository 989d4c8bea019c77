#include "breaks/ch13_wgmma.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch13::CHAPTER, argc, argv, CH13_BREAKS);
}
