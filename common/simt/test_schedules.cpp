// Under every order of blocks, warps and lanes, a correct kernel gives the same bits, and a broken
// one reports the same hazards.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <string>
#include <vector>

#include "chapters/03_basic_kernel/attention.hpp"
#include "chapters/05_pipelining/attention.hpp"
#include "chapters/07_better_pipelining/attention.hpp"
#include "chapters/09_masks_and_shapes/attention.hpp"
#include "common/simt/device.hpp"
#include "common/simt/fiber.hpp"
#include "common/simt/simt.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::Config;
using fa::simt::Report;

using Forward = std::function<void(const fa::ForwardArgs&, RuntimeBreaks)>;

#ifdef FA_SIMT_TSAN  // everything is fifty times slower with the thread sanitizer
constexpr uint64_t kSchedules = 2, kBrokenSchedules = 1;
#else
constexpr uint64_t kSchedules = 40, kBrokenSchedules = 8;
#endif

struct Kernel {
  const char* name;
  Forward forward;
  bool masked = false;  // keys before and after a window are masked, and LSE is wanted
};

void forward_09(const fa::ForwardArgs& args, RuntimeBreaks breaks) {
  ch09::launch_attention<64, fa::bf16, ch09::NoModifier>(args, breaks);
}

const Kernel kKernels[] = {
    {"03", [](const auto& args, auto breaks) { ch03::launch_attention<64>(args, breaks); }},
    {"05", [](const auto& args, auto breaks) { ch05::launch_attention<64>(args, breaks); }},
    {"07", [](const auto& args, auto breaks) { ch07::launch_attention<64>(args, breaks); }},
    {"09", forward_09},
    {"09, masked", forward_09, true},
};

struct Attention {
  static constexpr int kLenQ = 70, kLenKv = 250, kDim = 64;  // several tiles and a ragged end
  Buffer<fa::bf16> Q{kLenQ * kDim, "Q"}, K{kLenKv * kDim, "K"}, V{kLenKv * kDim, "V"};
  Buffer<fa::bf16> O{kLenQ * kDim, "O"};
  Buffer<float> LSE{kLenQ, "LSE"};
  Attention() {
    uint32_t state = 1;
    for (Buffer<fa::bf16>* buffer : {&Q, &K, &V}) {
      for (fa::bf16& x : *buffer) {
        state = state * 1664525u + 1013904223u;
        x = fa::to_bf16(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
      }
    }
  }
  Report run(const Kernel& kernel, const Config& config, uint32_t breaks = 0) {
    for (fa::bf16& x : O) x = fa::bf16{0x7fff};
    for (float& x : LSE) x = 0;
    const auto tensor = [](Buffer<fa::bf16>& buffer, int64_t length) -> fa::TensorRef {
      return {buffer.data(),
              fa::Dtype::bf16,
              {1, 1, length, kDim},
              {length * kDim, length * kDim, kDim, 1}};
    };
    fa::ForwardArgs args{.q = tensor(Q, kLenQ),
                         .k = tensor(K, kLenKv),
                         .v = tensor(V, kLenKv),
                         .o = tensor(O, kLenQ),
                         .scale = 0.125f,
                         .breaks = breaks};
    if (kernel.masked) {
      args.window_left = 100;
      args.window_right = 0;
      args.lse = {LSE.data(), fa::Dtype::f32, {1, 1, kLenQ, 1}, {kLenQ, kLenQ, 1, 1}};
    }
    return fa::simt::run(config, [&] { kernel.forward(args, RuntimeBreaks{breaks}); });
  }
  std::vector<uint32_t> bits() const {
    std::vector<uint32_t> all;
    for (fa::bf16 x : O) all.push_back(x.bits);
    for (float x : LSE) all.push_back(std::bit_cast<uint32_t>(x));
    return all;
  }
};

TEST_CASE("a correct kernel gives the same bits and counters under every schedule") {
  Attention attention;
  for (const Kernel& kernel : kKernels) {
    CAPTURE(kernel.name);
    Config config;
    const Report natural = attention.run(kernel, config);
    CHECK(natural.hazards.empty());
    for (fa::bf16 x : attention.O) CHECK(fa::to_float(x) == fa::to_float(x));  // not NaN
    CHECK(kernel.masked == (attention.LSE[0] != 0));
    const std::vector<uint32_t> expected = attention.bits();
    for (config.schedule_seed = 1; config.schedule_seed <= kSchedules; ++config.schedule_seed) {
      CAPTURE(config.schedule_seed);
      const Report report = attention.run(kernel, config);
      CHECK(report.hazards.empty());
      CHECK(attention.bits() == expected);
      for (const fa::simt::CounterField& field : fa::simt::kCounterFields) {
        CAPTURE(field.name);
        CHECK(report.counters.*field.value == natural.counters.*field.value);
      }
    }
  }
}

TEST_CASE("schedules differ: a kernel that depends on the order gives different results") {
  Buffer<float> out(64, "out");
  const auto racy = +[](float* result) {
    const int t = thread_index();
    if (t % 32 == 0) store_shared<float>(dynamic_smem(), static_cast<float>(t / 32));
    shfl_xor(0.0f, 1);
    store_global(result + t, load_shared<float>(dynamic_smem()));
  };
  std::vector<std::vector<float>> results;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Config config{.schedule_seed = seed};
    const Report report = fa::simt::run(config, [&] { launch(racy, 1, 64, 16, out.data()); });
    CHECK(!report.hazards.empty());
    results.emplace_back(out.begin(), out.end());
  }
  CHECK(std::count(results.begin(), results.end(), results[0]) < 16);
}

std::string findings(const Report& report) {
  std::string text;
  for (const fa::simt::Hazard& hazard : report.hazards) {
    text += std::string(hazard_name(hazard.kind)) + ":" + std::to_string(hazard.where.line) + " ";
  }
  return text;
}

// Excludes divergent-barrier, because it causes several races at the same bytes, and their order
// decides which one is reported.
TEST_CASE("a broken kernel has the same hazards, at the same lines, under every schedule") {
  Attention attention;
  for (const Kernel& kernel : kKernels) {
    for (fa::KernelBreak broken :
         {fa::CONDITIONAL_COMMIT, fa::MISSING_WAIT, fa::MISSING_BARRIER, fa::WAIT_TOO_FEW}) {
      CAPTURE(kernel.name);
      CAPTURE(broken);
      Config config;
      const std::string natural = findings(attention.run(kernel, config, broken));
      if (broken == fa::MISSING_WAIT || broken == fa::MISSING_BARRIER) CHECK(natural != "");
      for (config.schedule_seed = 1; config.schedule_seed <= kBrokenSchedules;
           ++config.schedule_seed) {
        CHECK(findings(attention.run(kernel, config, broken)) == natural);
      }
    }
  }
}

}  // namespace
