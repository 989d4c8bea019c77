// Chapter 02's measured peaks where nothing is measured: one thread, and a clock made coarse.
#include "chapters/02_tiled_cpu/peak.hpp"

#include "common/error.hpp"

namespace ch02 {

double measure_peak_gflops(int) { throw fa::InputError("a page does not measure its machine"); }
double measure_copy_gbs(int) { throw fa::InputError("a page does not measure its machine"); }

}  // namespace ch02
