#pragma once

#include <span>

#include "common/kernels/kernel.hpp"

namespace fa {

// In ascending order.
std::span<const Kernel* const> kernel_chapters();  // those with a forward pass
std::span<const Kernel* const> backward_chapters();
std::span<const Kernel* const> decode_chapters();

}  // namespace fa
