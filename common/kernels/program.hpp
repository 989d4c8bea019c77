#pragma once
// The parts that programs of chapters 03 and later share, namely a kernel that runs on the GPU or
// on the emulator, with its hazards and counters. See common/program.hpp for the other steps.

#include <functional>

#include "common/kernels/runner.hpp"
#include "common/program.hpp"

namespace fa {

// Returns what the program of a kernel takes.
Program program_of(const Kernel& kernel, const char* about,
                   const Shape& default_shape = {1, 1, 128, 512, 128});

// Computes O and LSE with a kernel, on the device that the arguments name. For --profile it also
// counts what the kernel `previous`, of the chapter before, does on the same plain problem.
Run run_forward(const Kernel& kernel, Tensors& tensors, const Arguments& args,
                const Kernel* previous = nullptr);

// Computes O and LSE with `forward` and the gradients with `kernel`, on the same device. Only the
// backward pass is timed and counted.
Run run_backward(const Kernel& kernel, const Kernel& forward, Tensors& tensors,
                 const Arguments& args, const std::vector<int>& options);

// The device code of a run.
struct KernelWork {
  std::function<double(int runs)> on_gpu;  // returns milliseconds
  std::function<EmulatorRun(const simt::Config&)> on_emulator;
  // Counts a kernel of an earlier chapter, or null for no comparison.
  std::function<simt::Counters()> previous = nullptr;
  const char* previous_name = "";
};

// Runs `work` on the requested device, with the reports of hazards, --profile and --events.
Run run_kernels(const Kernel& kernel, const Arguments& args, const KernelWork& work);

// Returns what the emulator counts for a forward pass.
simt::Counters counted(const Kernel& kernel, const Problem& problem);

// True if the run is on the GPU. `auto` selects the GPU unless only the emulator supports the
// arguments. Throws InputError if the requested device does not support them.
bool wants_gpu(const Kernel& kernel, const Arguments& args);

}  // namespace fa
