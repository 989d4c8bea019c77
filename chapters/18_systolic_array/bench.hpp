// --bench: how fast the arrays tick on this machine. Not how fast a TPU is.
#pragma once

#include <iosfwd>

namespace ch18 {

// False if a product was wrong.
bool run_bench(std::ostream& out);

}  // namespace ch18
