#pragma once

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex05 {

inline int loads_first(int stages) { return 2 * (stages - 1); }
inline int loads_after(int stages) { return 2 * (stages - 1); }
inline int one_group(int stages) { return stages - 1; }

}  // namespace FA_BACKEND::ex05
