// Whatever the order of blocks, warps and lanes: a correct kernel gives the same bits, and a wrong
// one the same hazards.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "chapters/03_basic_kernel/attention.hpp"
#include "chapters/05_pipelining/attention.hpp"
#include "chapters/07_better_pipelining/attention.hpp"
#include "common/simt/device.hpp"
#include "common/simt/simt.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::Config;
using fa::simt::Report;

using Forward = std::function<void(const fa::ForwardArgs&, RuntimeBreaks)>;

const Forward kForwards[] = {
    [](const auto& args, auto breaks) { ch03::launch_attention<64>(args, breaks); },
    [](const auto& args, auto breaks) { ch05::launch_attention<64>(args, breaks); },
    [](const auto& args, auto breaks) { ch07::launch_attention<64>(args, breaks); },
};

struct Attention {
  static constexpr int kLenQ = 70, kLenKv = 250, kDim = 64;  // ragged, several tiles
  Buffer<fa::bf16> Q{kLenQ * kDim, "Q"}, K{kLenKv * kDim, "K"}, V{kLenKv * kDim, "V"};
  Buffer<fa::bf16> O{kLenQ * kDim, "O"};
  Attention() {
    uint32_t state = 1;
    for (Buffer<fa::bf16>* buffer : {&Q, &K, &V}) {
      for (fa::bf16& x : *buffer) {
        state = state * 1664525u + 1013904223u;
        x = fa::to_bf16(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
      }
    }
  }
  Report run(const Forward& forward, const Config& config, uint32_t breaks = 0) {
    for (fa::bf16& x : O) x = fa::bf16{0x7fff};
    const auto tensor = [](Buffer<fa::bf16>& buffer, int64_t length) -> fa::TensorRef {
      return {buffer.data(),
              fa::Dtype::bf16,
              {1, 1, length, kDim},
              {length * kDim, length * kDim, kDim, 1}};
    };
    const fa::ForwardArgs args{.q = tensor(Q, kLenQ),
                               .k = tensor(K, kLenKv),
                               .v = tensor(V, kLenKv),
                               .o = tensor(O, kLenQ),
                               .scale = 0.125f,
                               .breaks = breaks};
    return fa::simt::run(config, [&] { forward(args, RuntimeBreaks{breaks}); });
  }
};

TEST_CASE("a correct kernel gives the same bits and counters under 100 schedules") {
  Attention attention;
  Config config;
  const Report natural = attention.run(kForwards[2], config);
  CHECK(natural.hazards.empty());
  std::vector<uint16_t> expected;
  for (fa::bf16 x : attention.O) {
    expected.push_back(x.bits);
    CHECK(fa::to_float(x) == fa::to_float(x));  // not NaN
  }
  for (config.schedule_seed = 1; config.schedule_seed <= 100; ++config.schedule_seed) {
    CAPTURE(config.schedule_seed);
    const Report report = attention.run(kForwards[2], config);
    CHECK(report.hazards.empty());
    CHECK(std::memcmp(expected.data(), attention.O.data(), attention.O.bytes()) == 0);
    for (const fa::simt::CounterField& field : fa::simt::kCounterFields) {
      CAPTURE(field.name);
      CHECK(report.counters.*field.value == natural.counters.*field.value);
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
    Config config;
    config.schedule_seed = seed;
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

// Not with divergent-barrier: several races at the same bytes follow, and order decides which
// shows.
TEST_CASE("a broken kernel has the same hazards, at the same lines, under every schedule") {
  Attention attention;
  for (size_t i = 0; i < std::size(kForwards); ++i) {
    for (fa::KernelBreak broken :
         {fa::CONDITIONAL_COMMIT, fa::MISSING_WAIT, fa::MISSING_BARRIER, fa::WAIT_TOO_FEW}) {
      CAPTURE(i);
      CAPTURE(broken);
      Config config;
      const std::string natural = findings(attention.run(kForwards[i], config, broken));
      if (broken == fa::MISSING_WAIT || broken == fa::MISSING_BARRIER) CHECK(natural != "");
      for (config.schedule_seed = 1; config.schedule_seed <= 12; ++config.schedule_seed) {
        CHECK(findings(attention.run(kForwards[i], config, broken)) == natural);
      }
    }
  }
}

}  // namespace
