// C functions for the fast version, used by docs/measurements/bench_cpu_peers.py.
#include "fast.hpp"
#include "peak.hpp"

extern "C" {

// Returns 0, or 1 on an error.
int ch02_fast_attention(const float* q, const float* k, const float* v, float* o, int64_t batch,
                        int64_t heads, int64_t len_q, int64_t len_kv, int64_t dim, double scale,
                        int causal, int threads) {
  try {
    ch02::fast_attention(q, k, v, o, nullptr, {batch, heads, len_q, len_kv, dim}, scale,
                         causal != 0, threads);
    return 0;
  } catch (...) {
    return 1;
  }
}

double ch02_peak_gflops(int threads) { return ch02::measure_peak_gflops(threads); }

double ch02_copy_gbs(int threads) { return ch02::measure_copy_gbs(threads); }

const char* ch02_fast_target() {
  static const std::string name = ch02::fast_target_name();
  return name.c_str();
}

}  // extern "C"
