#pragma once
// The program of chapters 03 on: the frame of common/program.hpp around a kernel that runs on the
// GPU or on the emulator.

#include <functional>

#include "common/kernels/runner.hpp"
#include "common/program.hpp"

namespace fa {

int run_kernel_program(const KernelChapter& chapter, int argc, char** argv,
                       const BreakDemos& demos = {});

// What a program of its own runs on either device. Both fill the program's outputs.
struct KernelWork {
  std::function<double()> on_gpu;  // returns milliseconds
  std::function<EmulatorRun(const simt::Config&)> on_emulator;
  std::function<simt::Counters()> previous = nullptr;  // of the chapter before, or none
};

// Runs it where the request says; hazards, --profile and --events as all these programs have them.
Outcome run_kernels(const KernelChapter& chapter, const Request& request, const KernelWork& work);

// Where a request runs. `auto` takes the GPU unless only the emulator can answer. Throws InputError
// for what the device asked for cannot do.
bool wants_gpu(const KernelChapter& chapter, const Request& request);

}  // namespace fa
