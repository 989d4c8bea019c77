// Precompiled in the page before the first check: the headers of exercise_headers in
// exercises/support/exercise.cmake, and others that answers use.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "exercises/support/instances.hpp"
#include "exercises/support/todo.hpp"
