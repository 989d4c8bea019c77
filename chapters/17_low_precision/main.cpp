#include <string_view>

#include "accuracy.hpp"
#include "breaks/ch17_low_precision.hpp"
#include "chapter.hpp"
#include "common/cli.hpp"
#include "common/kernels/kernel_program.hpp"

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view("accuracy"))
    return fa::guarded_main(argc - 1, argv + 1, ch17::run_accuracy);
  return fa::run_kernel_program(ch17::CHAPTER, argc, argv, CH17_BREAKS);
}
