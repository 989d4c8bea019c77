// The breaks of the arrays.
#pragma once

#include "common/breaks.hpp"

namespace ch18 {

enum BreakBit : std::uint32_t { kNoStagger = 1, kSwappedEarly = 2, kDrainForgotten = 4 };

inline constexpr fa::Break kBreaks[] = {
    {"no-stagger", kNoStagger},
    {"weights-swapped-early", kSwappedEarly},
    {"drain-forgotten", kDrainForgotten},
};

}  // namespace ch18
