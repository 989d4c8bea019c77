#include "breaks/ch09_masks_and_shapes.hpp"
#include "chapter.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  return fa::run_kernel_program(ch09::CHAPTER, argc, argv, CH09_BREAKS);
}
