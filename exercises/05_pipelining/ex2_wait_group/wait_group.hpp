#pragma once
// How many groups may stay in flight at each wait. README.md shows the three schedules.

#include "common/kernels/geometry.hpp"
#include "exercises/support/todo.hpp"

namespace FA_BACKEND::ex05 {

// K and V in separate groups, and each load comes before the wait.
inline int loads_first(int stages) { exercise::todo("TODO(05.2): N when loads come first"); }

// K and V in separate groups, and each load comes after the wait.
inline int loads_after(int stages) { exercise::todo("TODO(05.2): N when loads come after"); }

// K and V of a tile in one group, and the load comes before the wait.
inline int one_group(int stages) { exercise::todo("TODO(05.2): N with one group per tile"); }

}  // namespace FA_BACKEND::ex05
