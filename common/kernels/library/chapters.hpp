#pragma once

#include <span>

#include "common/kernels/chapter.hpp"

namespace fa {

std::span<const KernelChapter* const> kernel_chapters();  // in ascending order

}  // namespace fa
