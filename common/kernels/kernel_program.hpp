#pragma once
// Runs the programs of chapters 03 and later: the frame of common/program.hpp around a kernel that
// runs on the GPU or on the emulator.

#include <functional>

#include "common/kernels/runner.hpp"
#include "common/program.hpp"

namespace fa {

int run_kernel_program(const KernelChapter& chapter, int argc, char** argv,
                       const BreakDemos& demos = {});

// The device code of a program that does not use forward_on_*. Both functions fill the outputs.
struct KernelWork {
  std::function<double()> on_gpu;  // returns milliseconds
  std::function<EmulatorRun(const simt::Config&)> on_emulator;
  std::function<simt::Counters()> previous = nullptr;  // of the previous chapter's kernel, or null
};

// Runs `work` on the requested device, with the reports of hazards, --profile and --events that all
// these programs have.
Outcome run_kernels(const KernelChapter& chapter, const Request& request, const KernelWork& work);

// True if a request runs on the GPU. `auto` selects the GPU unless only the emulator supports the
// request. Throws InputError if the requested device does not support it.
bool wants_gpu(const KernelChapter& chapter, const Request& request);

}  // namespace fa
