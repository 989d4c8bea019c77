#pragma once
// What --break can switch off in this chapter only.

#include "common/kernels/forward.hpp"

namespace fa {

enum WgmmaBreak : uint32_t {
  K_DESCRIPTOR_FOR_V = OWN_BREAK << 0,
  NO_WGMMA_WAIT = OWN_BREAK << 1,
};

}  // namespace fa
