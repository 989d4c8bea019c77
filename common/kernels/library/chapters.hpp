#pragma once

#include <span>

#include "common/kernels/chapter.hpp"

namespace fa {

// In ascending order.
std::span<const KernelChapter* const> kernel_chapters();  // those with a forward pass
std::span<const KernelChapter* const> backward_chapters();
std::span<const KernelChapter* const> decode_chapters();

}  // namespace fa
