// Measures from which length tiling is faster, for one head, one thread, D = 64, 16 to 4096 keys.
//   ch02_bench --benchmark_min_time=0.2
#include <benchmark/benchmark.h>

#include "attention.hpp"
#include "fast.hpp"
#include "peak.hpp"

namespace {

void attention(benchmark::State& state, ch02::Algorithm algorithm) {
  const int64_t length = state.range(0);
  const fa::Problem problem = fa::random_problem({1, 1, length, length, 64}, fa::Dtype::f32, 1);
  ch02::Options options;
  options.algorithm = algorithm;
  options.threads = 1;
  std::vector<float> o(problem.shape.q_elements()), lse(problem.shape.rows());
  for (auto _ : state) {
    ch02::attend(problem, options, o, lse);
    benchmark::DoNotOptimize(o.data());
  }
  state.counters["GFLOP/s"] = benchmark::Counter(problem.shape.flops() * 1e-9,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(attention, naive, ch02::Algorithm::safe)->RangeMultiplier(2)->Range(16, 4096);
BENCHMARK_CAPTURE(attention, tiled, ch02::Algorithm::tiled)->RangeMultiplier(2)->Range(16, 4096);
BENCHMARK_CAPTURE(attention, fast, ch02::Algorithm::fast)->RangeMultiplier(2)->Range(16, 4096);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("vector target", ch02::fast_target_name());
  benchmark::AddCustomContext("peak GFLOP/s", std::to_string(ch02::measure_peak_gflops(1)));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
