// --bench measures the simulation speed of the arrays on this machine, which is unrelated to a
// TPU's speed.
#pragma once

#include <iosfwd>

namespace ch18 {

// Returns false if a product was wrong.
bool run_bench(std::ostream& out);

}  // namespace ch18
