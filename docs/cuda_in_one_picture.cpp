// A first kernel, for docs/cuda-in-one-picture.md. It adds up numbers, 128 per block, on the
// emulator.
//
//   cuda_in_one_picture                      300 numbers, three blocks
//   cuda_in_one_picture --without-barrier    thread 0 reads what other warps may not have stored
//   yet cuda_in_one_picture --without-guard      the last block's spare threads read past the end

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/backend.hpp"
#include "common/cli.hpp"
#include "common/guarded_main.hpp"
#include "common/simt/simt.hpp"

// [anchor: kernel]
namespace FA_BACKEND::first_kernel {

constexpr int NUM_WARPS = 4, NUM_THREADS = NUM_WARPS * 32;

// sums[b] = the sum of the NUM_THREADS numbers of block b
FA_KERNEL void add_up(const float* x, float* sums, int n, bool guard, bool barrier) {
  const int warp = thread_index() / 32, lane = thread_index() % 32;
  const int i = block_index() * NUM_THREADS + thread_index();  // this thread's number
  float sum = i < n || !guard ? load_global(x + i) : 0;  // the last block has threads to spare
  for (int mask = 16; mask > 0; mask /= 2) sum += shfl_xor(sum, mask);  // of the 32 lanes
  if (lane == 0) store_shared<float>(dynamic_smem() + 4 * warp, sum);
  if (barrier) block_sync();  // all warps have stored their sums
  if (thread_index() == 0) {
    float total = 0;
    for (int w = 0; w < NUM_WARPS; ++w) total += load_shared<float>(dynamic_smem() + 4 * w);
    store_global(sums + block_index(), total);
  }
}

}  // namespace FA_BACKEND::first_kernel
// [/anchor: kernel]

namespace {

int program(int argc, char** argv) {
  int64_t n = 300;
  bool without_barrier = false, without_guard = false;
  fa::Cli cli("cuda_in_one_picture",
              "Adds up 1 + 2 + … + N, 128 numbers to a block, on the emulator.");
  cli.integer("--numbers", n, 1, 1 << 20, "how many");
  cli.flag("--without-barrier", without_barrier, "leave out the barrier before the last sum");
  cli.flag("--without-guard", without_guard, "let threads without a number load one all the same");
  cli.parse(argc, argv);

  // [anchor: host]
  using namespace emulator::first_kernel;
  const int num_blocks = static_cast<int>((n + NUM_THREADS - 1) / NUM_THREADS);
  fa::simt::Buffer<float> x(n, "x"), sums(num_blocks, "sums");
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(i + 1);

  const fa::simt::Report report = fa::simt::run(fa::simt::Config{}, [&] {
    emulator::launch(add_up, num_blocks, NUM_THREADS, NUM_WARPS * sizeof(float), x.data(),
                     sums.data(), static_cast<int>(n), !without_guard, !without_barrier);
  });
  // [/anchor: host]

  std::printf("%lld numbers, %d blocks of %d warps, %lld threads to spare\n",
              static_cast<long long>(n), num_blocks, NUM_WARPS,
              static_cast<long long>(num_blocks) * NUM_THREADS - n);
  bool correct = true;
  for (int64_t block = 0; block < num_blocks; ++block) {
    double exact = 0;
    const int64_t end = std::min(n, (block + 1) * NUM_THREADS);
    for (int64_t i = block * NUM_THREADS; i < end; ++i) exact += static_cast<double>(i + 1);
    const bool agrees = std::abs(sums[block] - exact) <= 1e-6 * exact;  // false for a NaN
    correct = correct && agrees;
    if (block < 4 || !agrees)
      std::printf(
          "block %lld: %g%s\n", static_cast<long long>(block), std::abs(sums[block]),
          agrees ? "" : ", wrong");  // abs, because a NaN has a sign too, which is no information
  }
  std::printf("%lld shuffles, %lld barriers, %lld sectors read\n",
              static_cast<long long>(report.counters.shuffle_instructions),
              static_cast<long long>(report.counters.barriers),
              static_cast<long long>(report.counters.global_load_sectors));
  for (const fa::simt::Hazard& hazard : report.hazards) std::printf("%s\n", hazard.text.c_str());
  return correct && report.hazards.empty() ? fa::kAgreed : fa::kDisagreed;
}

}  // namespace

int main(int argc, char** argv) { return fa::guarded_main(argc, argv, program); }
