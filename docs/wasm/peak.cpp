// Replaces chapter 02's peak measurements, because a page has one thread and a coarse clock.
#include "chapters/02_tiled_cpu/peak.hpp"

#include "common/error.hpp"

namespace ch02 {

double measure_peak_gflops(int) { throw fa::InputError("a page does not measure its machine"); }
double measure_copy_gbs(int) { throw fa::InputError("a page does not measure its machine"); }

}  // namespace ch02
