#pragma once
// The chapters of a module; build.py writes them.

#include <span>

#include "common/kernels/chapter.hpp"

namespace fa::wasm {

extern const std::span<const KernelChapter* const> chapters;

}  // namespace fa::wasm
