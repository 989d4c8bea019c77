// The subcommands that measure attention: memory, fusion, roofline.

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "attention.hpp"
#include "commands.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/json_report.hpp"
#include "common/program.hpp"
#include "common/timer.hpp"
#include "loop_order.hpp"
#include "peak.hpp"

namespace ch02 {
namespace {

using Timer = double (*)(const std::function<void()>& work);  // milliseconds

double once(const std::function<void()>& work) { return fa::time_ms(work); }
double median_of_three(const std::function<void()>& work) { return fa::median_ms(3, work); }

// Returns the median processor time of five calls. With one thread this is the time of the work,
// even if other programs run on the machine.
double processor_time(const std::function<void()>& work) {
  std::vector<double> times(5);
  for (double& time : times) {
    const std::clock_t start = std::clock();
    work();
    time = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }
  std::sort(times.begin(), times.end());
  return times[2];
}

// Measures an algorithm on a problem and checks the result.
struct Run {
  Run(const fa::Problem& problem, Algorithm algorithm, int threads, Timer timer) {
    Options options;
    options.algorithm = algorithm;
    options.threads = threads;
    std::vector<float> o(problem.shape.q_elements()), lse(problem.shape.rows());
    time_ms = timer([&] { report = attend(problem, options, o, lse); });
    passed = fa::check_output(problem, o, lse).passed();
  }
  Report report;
  double time_ms;
  bool passed;
};

double mib(double bytes) { return bytes / (1 << 20); }

std::string milliseconds(double ms) { return fa::times_hidden() ? "" : text("%10.1f ms", ms); }

}  // namespace

int memory_command(const CommandOptions& options) {
  bool passed = true;
  nlohmann::json rows = nlohmann::json::array();
  std::cout << "One head, fp32, d = 64; MiB allocated besides inputs and outputs.\n"
            << text("%8s %14s %12s %12s %12s %10s\n", "L", "score matrix", "O", "safe", "tiled",
                    "safe/tiled");
  for (int64_t length = 512; length <= options.longest; length *= 2) {
    const fa::Problem problem = fa::random_problem({1, 1, length, length, 64}, fa::Dtype::f32, 0);
    const Run naive(problem, Algorithm::safe, 1, once);
    const Run tiled(problem, Algorithm::tiled, 1, once);
    passed = passed && naive.passed && tiled.passed;
    const int64_t matrix = 4 * length * length, output = 4 * length * 64;
    std::cout << text("%8lld %14.1f %12.1f %12.2f %12.3f %9.0fx\n", (long long)length, mib(matrix),
                      mib(output), mib(naive.report.peak_bytes), mib(tiled.report.peak_bytes),
                      double(naive.report.peak_bytes) / tiled.report.peak_bytes)
              << std::flush;
    rows.push_back({{"length", length},
                    {"score_matrix_bytes", matrix},
                    {"output_bytes", output},
                    {"safe_peak_bytes", naive.report.peak_bytes},
                    {"tiled_peak_bytes", tiled.report.peak_bytes}});
  }
  if (!options.json.empty()) {
    fa::write_json(options.json, {{"dim", 64},
                                  {"dtype", "f32"},
                                  {"threads", 1},
                                  {"block_q", 64},
                                  {"block_kv", 64},
                                  {"rows", rows}});
  }
  return passed ? fa::kAgreed : fa::kDisagreed;
}

int fusion_command() {
  const fa::Problem problem = fa::random_problem({1, 4, 1024, 1024, 64}, fa::Dtype::f32, 0);
  const double flops = problem.shape.flops();
  bool passed = true;
  std::cout << "Shape " << fa::to_string(problem.shape)
            << ", fp32: bytes between tensors and fast memory\n(tiles of 64 x 64).\n"
            << text("%-8s %12s %12s %12s %14s\n", "", "MiB read", "MiB written", "MiB moved",
                    "FLOP per byte");
  for (const Algorithm algorithm :
       {Algorithm::native, Algorithm::safe, Algorithm::online, Algorithm::tiled}) {
    const Run run(problem, algorithm, 0, median_of_three);
    passed = passed && run.passed;
    const Counts& counts = run.report.counts;
    const double moved = static_cast<double>(counts.bytes_read + counts.bytes_written);
    std::cout << text("%-8s %12.1f %12.1f %12.1f %14.2f", name(algorithm), mib(counts.bytes_read),
                      mib(counts.bytes_written), mib(moved), flops / moved)
              << milliseconds(run.time_ms) << '\n';
  }
  return passed ? fa::kAgreed : fa::kDisagreed;
}

namespace {

struct Point {
  char letter;
  std::string name;
  double flop_per_byte, gflops;
};

// Measures FlashAttention-1's order on one thread, as a point on the roofline.
Point kv_outer_point(const fa::Problem& problem) {
  const fa::Shape& shape = problem.shape;
  std::vector<float> o(shape.q_elements()), lse(shape.q);
  const HeadTensors head{
      {problem.q.data(), shape.q, shape.dim},  {problem.k.data(), shape.kv, shape.dim},
      {problem.v.data(), shape.kv, shape.dim}, static_cast<float>(problem.scale),
      {o.data(), shape.q, shape.dim},          lse};
  LoopTraffic traffic;
  const double ms = processor_time([&] { traffic = kv_outer(head, {64, 64}); });
  const double bytes = 4.0 * static_cast<double>(traffic.elements_read + traffic.elements_written);
  return {'1', "keys outside (FA1)", shape.flops() / bytes, shape.flops() / ms * 1e-6};
}

// Both axes are logarithmic, with FLOP per byte to the right, GFLOP/s upward.
void draw(const std::vector<Point>& points, double peak, double bandwidth) {
  constexpr int kWidth = 72, kHeight = 13;
  const double left = std::log2(0.25), right = std::log2(256.0);
  const double top = std::log2(peak * 1.5), bottom = std::log2(peak / 64);
  std::vector<std::string> canvas(kHeight, std::string(kWidth, ' '));
  const auto plot = [&](double x, double y, char c) {
    const int column = static_cast<int>((std::log2(x) - left) / (right - left) * (kWidth - 1));
    const int line = static_cast<int>((top - std::log2(y)) / (top - bottom) * (kHeight - 1));
    if (column >= 0 && column < kWidth && line >= 0 && line < kHeight) canvas[line][column] = c;
  };
  for (int column = 0; column < kWidth; ++column) {
    const double x = std::exp2(left + (right - left) * (column + 0.5) / (kWidth - 1));
    plot(x, std::min(peak, bandwidth * x), x * bandwidth < peak ? '/' : '-');
  }
  for (const Point& point : points) plot(point.flop_per_byte, point.gflops, point.letter);
  for (const std::string& line : canvas) std::cout << "  |" << line << '\n';
  std::cout << "  +" << std::string(kWidth, '-') << "\n   0.25 FLOP per byte"
            << std::string(48, ' ') << "256\n";
}

}  // namespace

int roofline_command() {
  const fa::Problem problem = fa::random_problem({1, 1, 2048, 2048, 64}, fa::Dtype::f32, 0);
  bool passed = true;
  std::vector<Point> points;
  const auto add = [&](char letter, const char* name, Algorithm algorithm, double bytes) {
    const Run run(problem, algorithm, 1, processor_time);
    passed = passed && run.passed;
    if (bytes == 0) bytes = double(run.report.counts.bytes_read + run.report.counts.bytes_written);
    points.push_back(
        {letter, name, problem.shape.flops() / bytes, problem.shape.flops() / run.time_ms * 1e-6});
    return bytes;
  };
  add('n', "naive (safe)", Algorithm::safe, 0);
  points.push_back(kv_outer_point(problem));
  const double tiled_bytes = add('2', "queries outside (FA2)", Algorithm::tiled, 0);
  add('f', "fast, drawn at FA2's intensity", Algorithm::fast, tiled_bytes);

  double peak = 0, bandwidth = 0;  // the fastest run, because other programs can only slow it down
  for (int i = 0; i < 5; ++i) {
    peak = std::max(peak, measure_peak_gflops(1));
    bandwidth = std::max(bandwidth, measure_copy_gbs(1));
  }
  std::cout << "Shape " << fa::to_string(problem.shape) << ", fp32, one thread (processor time):\n"
            << text("peak %.1f GFLOP/s, copy %.1f GB/s, ridge at %.1f FLOP per byte\n\n", peak,
                    bandwidth, peak / bandwidth);
  draw(points, peak, bandwidth);
  std::cout << text("\n  %-34s %14s %10s %16s\n", "", "FLOP per byte", "GFLOP/s", "roof there");
  for (const Point& point : points) {
    std::cout << text("%c %-34s %14.2f %10.1f %16.1f\n", point.letter, point.name.c_str(),
                      point.flop_per_byte, point.gflops,
                      std::min(peak, bandwidth * point.flop_per_byte));
  }
  return passed ? fa::kAgreed : fa::kDisagreed;
}

}  // namespace ch02
