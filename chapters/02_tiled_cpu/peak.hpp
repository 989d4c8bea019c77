#pragma once
// What this machine can do at most, measured: the two lines of a roofline.

namespace ch02 {

// GFLOP/s of multiply-adds on registers alone, fp32, in the instruction set that fast_attention
// uses. `threads` 0: all. The best of several short runs, after a warm-up.
double measure_peak_gflops(int threads);

// GB/s of copying memory that no cache holds, each byte counted twice: read and written.
double measure_copy_gbs(int threads);

}  // namespace ch02
