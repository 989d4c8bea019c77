#pragma once
// The breaks of chapter 10 alone, on the CPU and in its kernels.

#include <span>

#include "common/breaks.hpp"
#include "common/kernels/forward.hpp"

namespace fa {

enum BackwardBreak : uint32_t {
  NO_D = OWN_BREAK << 0,
  NO_SCALE_IN_DK = OWN_BREAK << 1,
  UNMASKED_BACKWARD = OWN_BREAK << 2,
  LSE_OF_EMPTY_ROW = OWN_BREAK << 3,
  BF16_DQ = OWN_BREAK << 4,       // on the CPU only
  LATE_ZERO = OWN_BREAK << 5,     // in the kernels only
  UNORDERED_DQ = OWN_BREAK << 6,  // in the kernels only
};

inline constexpr Break BACKWARD_BREAKS[] = {
    {"bf16-dq", BF16_DQ},
    {"no-d", NO_D},
    {"no-scale-in-dk", NO_SCALE_IN_DK},
    {"unmasked-backward", UNMASKED_BACKWARD},
    {"lse-of-empty-row", LSE_OF_EMPTY_ROW},
    {"late-zero", LATE_ZERO},
    {"unordered-dq", UNORDERED_DQ},
};
inline constexpr auto CPU_BREAKS = std::span(BACKWARD_BREAKS).first<5>();
inline constexpr auto KERNEL_BREAKS = std::span(BACKWARD_BREAKS).subspan<1>();

}  // namespace fa
