// What --break can switch off in the arrays.
#pragma once

#include "common/breaks.hpp"

namespace ch18 {

enum BreakBit : std::uint32_t { kNoStagger = 1, kSwappedEarly = 2, kDrainForgotten = 4 };

inline constexpr fa::Break kBreaks[] = {
    {"no-stagger", kNoStagger, "every row and column is fed from the same cycle on"},
    {"weights-swapped-early", kSwappedEarly,
     "all cells take their next weight at once (with --double-buffer)"},
    {"drain-forgotten", kDrainForgotten, "the results are read when the last operand has entered"},
};

}  // namespace ch18
