#pragma once
// The breaks of this chapter alone.

#include "common/kernels/forward.hpp"

namespace fa {

enum WgmmaBreak : uint32_t {
  K_DESCRIPTOR_FOR_V = OWN_BREAK << 0,
  NO_WGMMA_WAIT = OWN_BREAK << 1,
};

}  // namespace fa
