#include "roofline.hpp"

#include <cmath>
#include <limits>

namespace ch18 {

// TPUs: Google's pages on v5e, v5p and v6e; VMEM of one TensorCore: JAX, tpu_info.py. A v5p has
// two. H200: NVIDIA's data sheet; maximum shared memory per block: CUDA programming guide.
const std::vector<Chip>& chips() {
  static const std::vector<Chip> list = {
      {"TPU v5e", 197, 819, 128.0 * 1024 * 1024, "4 of 128 × 128"},
      {"TPU v5p", 459, 2765, 64.0 * 1024 * 1024, "2 × 4 of 128 × 128"},
      {"TPU v6e", 918, 1638, 128.0 * 1024 * 1024, "2 of 256 × 256"},
      {"H200", 989, 4800, 227.0 * 1024, "4 tensor cores × 132 SMs"},
  };
  return list;
}

Crossover crossover(const Chip& chip, std::int64_t dim, std::int64_t bytes_per_element) {
  Crossover c;
  // [anchor: crossover]
  // S = Q @ K.T and P @ V: 4 n² d FLOP.
  c.ridge = chip.tflops * 1000 / chip.gigabytes_per_s;
  c.fits_up_to = static_cast<std::int64_t>(std::sqrt(chip.fast_bytes / 4));
  c.unfused = static_cast<double>(dim) / bytes_per_element;  // 4 n² d / (4 n² · bytes)
  c.fused_from = std::llround(std::ceil(c.ridge * bytes_per_element));  // 4 n² d / (4 n d · bytes)
  c.block_from =
      std::llround(std::ceil(c.ridge * bytes_per_element / 2));  // / (2 n² d / b · bytes)
  // [/anchor: crossover]
  return c;
}

std::vector<Traffic> traffic(std::int64_t n, std::int64_t dim, std::int64_t bytes_per_element) {
  const double scores = static_cast<double>(n) * n * bytes_per_element;
  const double rows = static_cast<double>(n) * dim * bytes_per_element;
  const auto of = [&](const char* name, int dispatches, double matrices) {
    return Traffic{name, dispatches, matrices, 4 * rows + matrices * scores};
  };
  return {of("one dispatch for each operation", 5, 8),  // S; scale; mask; softmax; P @ V
          of("three dispatches, S and P through HBM", 3, 4),
          of("fused, S and P stay on chip", 1, 0)};
}

const std::vector<Measured>& article() {
  const double none = std::numeric_limits<double>::quiet_NaN();
  static const std::vector<Measured> rows = {
      {512, 1.390, 0.475, 0.076, 0.074, 0.065},   {1024, 1.504, 0.497, 0.055, 0.133, 0.079},
      {2048, 1.737, 0.651, 0.067, 0.525, 0.083},  {4096, 3.016, 1.038, 0.072, 2.510, 0.178},
      {8192, 7.385, 2.834, 1.189, 14.061, 0.587}, {16384, 25.576, 10.110, 4.445, 89.538, 1.997},
      {32768, none, none, 17.123, 103.016, none},
  };
  return rows;
}

}  // namespace ch18
