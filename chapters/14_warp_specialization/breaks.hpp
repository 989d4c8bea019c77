#pragma once
// The breaks of this chapter alone.

#include "common/kernels/forward.hpp"

namespace fa {

enum RoleBreak : uint32_t {
  EMPTY_COUNT = OWN_BREAK << 0,
  NO_EMPTY_WAIT = OWN_BREAK << 1,
  FULL_FOR_EMPTY = OWN_BREAK << 2,
  KEEP_REGISTERS = OWN_BREAK << 3,
};

}  // namespace fa
