#pragma once
// Measures the peak performance and the memory bandwidth of this machine for a roofline.

namespace ch02 {

// Returns the GFLOP/s of fp32 multiply-adds on registers, in the instruction set that
// fast_attention uses, as the best of several short runs after a warm-up. `threads` 0 means all
// hardware threads.
double measure_peak_gflops(int threads);

// Returns the GB/s of copying memory that exceeds every cache. A copied byte counts twice, because
// it is read and written.
double measure_copy_gbs(int threads);

}  // namespace ch02
