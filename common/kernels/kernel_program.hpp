#pragma once
// The program of chapters 03 on: the frame of common/program.hpp around a kernel that runs on the
// GPU or on the emulator. A chapter's main.cpp fills in a KernelChapter.

#include <span>
#include <string>

#include "common/kernels/forward.hpp"
#include "common/problem.hpp"
#include "common/simt/simt.hpp"

namespace fa {

using KernelBuild = void (*)(const ForwardArgs&);  // emulator::chNN::forward, gpu::chNN::forward

struct KernelChapter {
  std::string name;   // "ch04_swizzling"
  std::string about;  // the idea in a line
  KernelBuild emulator, gpu;
  uint32_t breaks;    // KernelBreak bits: the lines that this chapter has to switch off
  std::string previous_name = {};         // the chapter before: --profile shows its counters too
  KernelBuild previous_emulator = nullptr;
  int max_stages = 0;                     // more than 2: the chapter has --stages 2..max_stages
};

// Breaks that every chapter from 03 on has; the others come with what they break.
constexpr uint32_t BASIC_BREAKS = NO_MAX | NO_RESCALE | UNMASKED_TAIL | SHUFFLE_MASK_0X10 |
                                  MISSING_WAIT | MISSING_BARRIER | DIVERGENT_BARRIER;
constexpr uint32_t PIPELINE_BREAKS = CONDITIONAL_COMMIT | WAIT_TOO_FEW;

int run_kernel_program(const KernelChapter& chapter, int argc, char** argv);

// What program, tests and library have in common.

// Throws InputError for a shape that no kernel here takes.
void check_kernel_shape(const Shape& shape);

struct EmulatorRun {
  simt::Report report;
  std::string events_json;  // with config.events; else empty
};

// O [B,H,Lq,D] of `problem`, whose values must be bf16. What the kernel leaves unwritten is NaN.
EmulatorRun run_on_emulator(KernelBuild build, const Problem& problem, std::span<float> o,
                            const simt::Config& config = {}, uint32_t breaks = 0, int stages = 2);

// Likewise; returns milliseconds, the median of `runs`.
double run_on_gpu(KernelBuild build, const Problem& problem, std::span<float> o, int runs = 1,
                  uint32_t breaks = 0, int stages = 2);

}  // namespace fa
