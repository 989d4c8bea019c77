#pragma once
// The program of chapters 03 on: the frame of common/program.hpp around a kernel that runs on the
// GPU or on the emulator.

#include "common/kernels/chapter.hpp"

namespace fa {

int run_kernel_program(const KernelChapter& chapter, int argc, char** argv);

}  // namespace fa
