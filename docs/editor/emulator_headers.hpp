// Precompiled in the page before the first check of an exercise on the emulator: the headers of
// exercise_warp_headers in exercises/support/exercise.cmake, and others that answers use.

#include "headers.hpp"

#include "common/kernels/geometry.hpp"
#include "exercises/support/warp.hpp"
