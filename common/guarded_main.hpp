#pragma once
// The place where exceptions become an exit code.

#include <functional>

#include "common/error.hpp"

namespace fa {

// Runs `body`. An exception becomes one line `error: …` on stderr and exit code 2, and so does
// output that could not be written.
int guarded_main(int argc, char** argv, const std::function<int(int, char**)>& body);

}  // namespace fa
