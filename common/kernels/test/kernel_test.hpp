#pragma once
// What every chapter's kernel must do, as checks that the chapters' tests call. They run on the
// emulator, and on the GPU too where there is one.

#include <string>

#include "common/kernels/kernel_program.hpp"

namespace fa::test {

struct Kernel {
  KernelBuild emulator, gpu;
  int stages = 2;
};

void agrees_on_named_shapes(const Kernel& kernel);    // at input scales 1, 30 and 1e-3
void agrees_on_a_large_shape(const Kernel& kernel);   // likewise
void agrees_on_random_shapes(const Kernel& kernel);
void agrees_with_golden_cases(const Kernel& kernel);  // NumPy's answers
void returns_a_constant_v(const Kernel& kernel);
void same_bits_under_every_schedule(const Kernel& kernel);  // and no hazard
// The kernel has `count` barriers and waits, and each, left out alone, is reported as a hazard.
void every_synchronization_is_needed(const Kernel& kernel, size_t count);

// The emulator's counters at 1,1,128,512,128.
simt::Counters count(const Kernel& kernel);

// Each break shows the symptom that its lesson promises, and only where it promises one.
void no_max_overflows(const Kernel& kernel);
// At every input scale where it is more than rounding, the checker must see it.
void is_finite_and_wrong(const Kernel& kernel, KernelBreak flag, const Shape& shape);
void is_harmless(const Kernel& kernel, KernelBreak flag, const Shape& shape);
void is_reported_as(const Kernel& kernel, KernelBreak flag, simt::HazardKind kind);

}  // namespace fa::test
