#pragma once
// The build of a chapter's kernel, as host code sees it. It includes no headers of host code,
// because nvcc reads it for each kernel.

#include "common/kernels/backward.hpp"
#include "common/kernels/decode.hpp"
#include "common/kernels/forward.hpp"

namespace fa {

// A chapter's kernel for one backend, either emulator::chNN::build or gpu::chNN::build.
struct KernelBuild {
  // The pass that the chapter teaches is set, the others are null. A build without the chapter has
  // only nulls.
  void (*forward)(const ForwardArgs&) = nullptr;
  void (*backward)(const BackwardArgs&) = nullptr;
  void (*decode)(const DecodeArgs&) = nullptr;
  // For the GPU build. "sm_80" runs there and on newer cards, while "sm_90a" runs there only.
  const char* machine_code = "";
  const char* left_out = "";  // why, as a sentence
};

}  // namespace fa
