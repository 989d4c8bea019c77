// Measures which tile size is fastest on this GPU. Every configuration of a chapter's kernel is
// checked against float64 and then timed. The driver reports the registers and the local memory.
//
//   cmake --build build --target ch08_sweep && build/bin/ch08_sweep --dim 128

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include FA_CHAPTER_HEADER
#include "common/check.hpp"
#include "common/cli.hpp"
#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/runner.hpp"

namespace {

using namespace gpu;

constexpr std::string_view CHAPTER = FA_CHAPTER_NAME;  // "ch08"

struct Configuration {
  int block_q, block_kv, num_warps;
  fa::KernelBuild build;
  const void* kernel;
};

// Chapters 05 and 06 have one more parameter. They keep twice as many tiles, of half the height.
#ifdef FA_STAGES
#define FA_PARAMETERS HEAD_DIM, FA_STAGES, BLOCK_Q, BLOCK_KV, NUM_WARPS
constexpr int OWN_KV = 32, OTHER_KV = 64;
#else
#define FA_PARAMETERS HEAD_DIM, BLOCK_Q, BLOCK_KV, NUM_WARPS
constexpr int OWN_KV = 64, OTHER_KV = 32;
#endif

template <int HEAD_DIM, int BLOCK_Q, int BLOCK_KV, int NUM_WARPS>
void forward(const fa::ForwardArgs& args) {
  FA_CHAPTER::launch_attention<FA_PARAMETERS>(args, NoBreaks{});
}

template <int HEAD_DIM, int BLOCK_Q, int BLOCK_KV, int NUM_WARPS>
Configuration configuration() {
  const auto kernel = &FA_CHAPTER::attention<FA_PARAMETERS, NoBreaks>;
  return {BLOCK_Q,
          BLOCK_KV,
          NUM_WARPS,
          {.forward = forward<HEAD_DIM, BLOCK_Q, BLOCK_KV, NUM_WARPS>, .machine_code = "sm_80"},
          reinterpret_cast<const void*>(kernel)};
}

// The first configuration is the chapter's own. Up to chapter 07 it has 16 rows per warp and 64 or
// 32 keys.
template <int HEAD_DIM>
std::vector<Configuration> configurations() {
  if constexpr (CHAPTER != "ch08") {
    return {configuration<HEAD_DIM, 64, OWN_KV, 4>(), configuration<HEAD_DIM, 64, OTHER_KV, 4>(),
            configuration<HEAD_DIM, 64, 128, 4>(),    configuration<HEAD_DIM, 128, 32, 4>(),
            configuration<HEAD_DIM, 128, 64, 4>(),    configuration<HEAD_DIM, 128, 32, 8>(),
            configuration<HEAD_DIM, 128, 64, 8>(),    configuration<HEAD_DIM, 128, 128, 8>()};
  } else if constexpr (HEAD_DIM == 64) {
    return {configuration<64, 128, 128, 4>(), configuration<64, 64, 64, 4>(),
            configuration<64, 128, 32, 4>(),  configuration<64, 128, 64, 4>(),
            configuration<64, 128, 96, 4>(),  configuration<64, 256, 64, 8>(),
            configuration<64, 256, 128, 8>()};
  } else {
    return {configuration<128, 128, 64, 4>(), configuration<128, 64, 64, 4>(),
            configuration<128, 128, 32, 4>(), configuration<128, 128, 48, 4>(),
            configuration<128, 128, 96, 4>(), configuration<128, 128, 64, 8>(),
            configuration<128, 256, 64, 8>()};
  }
}

// Prints one line of the table. A configuration that does not fit this GPU has a line too.
void measure(const Configuration& config, const fa::Problem& small, const fa::Problem& large) {
  std::printf("  %3d x %-3d  %d warps  ", config.block_q, config.block_kv, config.num_warps);
  cudaFuncAttributes attributes;
  FA_CUDA_CHECK(cudaFuncGetAttributes(&attributes, config.kernel));
  std::printf("%3d registers, %4zu bytes local  ", attributes.numRegs, attributes.localSizeBytes);
  try {
    std::vector<float> o(small.shape.q_elements());
    const fa::Kernel chapter{.name = FA_CHAPTER_NAME, .emulator = nullptr, .gpu = &config.build};
    fa::forward_on_gpu(chapter, small, o);
    if (!fa::check_output(small, o, {}).passed()) {
      std::printf("WRONG: not timed\n");
      return;
    }
    o.resize(large.shape.q_elements());
    const double ms = fa::forward_on_gpu(chapter, large, o, {}, {}, 10);
    std::printf("%8.3f ms  %6.1f TFLOP/s\n", ms, large.shape.flops() / ms * 1e-9);
  } catch (const fa::InputError& error) {
    std::printf("%s\n", error.what());
  }
}

int run(int argc, char** argv) {
  fa::Cli cli(std::string(CHAPTER) + "_sweep",
              "Times a chapter's kernel at several tile sizes on this GPU, its own first.");
  int64_t head_dim = 128;
  cli.integer("--dim", head_dim, 64, 128, "head size, 64 or 128 [128]");
  cli.parse(argc, argv);
  fa::check_kernel_shape({1, 1, 1, 1, head_dim});
  fa::require_gpu();
  const fa::Shape shape{1, 2048 / head_dim, 8192, 8192, head_dim};
  const fa::Problem small = fa::random_problem({1, 2, 200, 333, head_dim}, fa::Dtype::bf16, 1);
  const fa::Problem large = fa::random_problem(shape, fa::Dtype::bf16, 2);
  std::printf("%s, shape %s\n  BLOCK_Q x BLOCK_KV\n", fa::gpu_name().c_str(),
              fa::to_string(shape).c_str());
  const auto configs = head_dim == 64 ? configurations<64>() : configurations<128>();
  for (const Configuration& config : configs) measure(config, small, large);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return fa::guarded_main(argc, argv, run); }
