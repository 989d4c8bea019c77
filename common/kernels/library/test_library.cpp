#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "common/check.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/builds.hpp"
#include "common/kernels/kernel_program.hpp"
#include "common/kernels/library/flash_attention.h"

namespace {

using fa::bf16;

// Two owners of one piece of device memory would free it twice.
static_assert(!std::is_copy_constructible_v<fa::GpuBuffer>);
static_assert(!std::is_copy_assignable_v<fa::GpuBuffer>);

std::vector<bf16> rounded(const std::vector<float>& values) {
  std::vector<bf16> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), fa::to_bf16);
  return result;
}

TEST_CASE("every chapter answers through the C interface, on host memory") {
  const fa::Problem problem = fa::random_problem({1, 2, 70, 150, 64}, fa::Dtype::bf16, 9);
  const std::vector<bf16> q = rounded(problem.q), k = rounded(problem.k), v = rounded(problem.v);
  for (int chapter = 3; chapter <= 8; ++chapter) {
    INFO("chapter ", chapter);
    std::vector<bf16> o(q.size(), bf16{0x7fff});  // NaN
    REQUIRE(flash_attention_forward(chapter, q.data(), k.data(), v.data(), o.data(), 1, 2, 70, 150,
                                    64, problem.scale, nullptr) == 0);
    std::vector<float> values(o.size());
    std::transform(o.begin(), o.end(), values.begin(), [](bf16 x) { return fa::to_float(x); });
    CHECK(fa::check_output(problem, values, {}).passed());
  }
}

std::vector<int64_t> counted(const fa::simt::Report& report) {
  std::vector<int64_t> values;
  for (const fa::simt::CounterField& field : fa::simt::kCounterFields) {
    values.push_back(report.counters.*field.value);
  }
  return values;
}

TEST_CASE("a chapter's number runs that chapter's kernel: it counts what no other chapter does") {
  const fa::KernelBuild builds[] = {emulator::ch03::forward, emulator::ch04::forward,
                                    emulator::ch05::forward, emulator::ch06::forward,
                                    emulator::ch07::forward, emulator::ch08::forward};
  const fa::Problem problem = fa::random_problem({1, 1, 64, 150, 64}, fa::Dtype::bf16, 9);
  const size_t q_size = problem.q.size(), kv_size = problem.k.size();
  // Aligned as run_on_emulator's are: the number of sectors depends on it.
  fa::simt::Buffer<bf16> q(q_size, "q"), k(kv_size, "k"), v(kv_size, "v"), o(q_size, "o");
  std::transform(problem.q.begin(), problem.q.end(), q.begin(), fa::to_bf16);
  std::transform(problem.k.begin(), problem.k.end(), k.begin(), fa::to_bf16);
  std::transform(problem.v.begin(), problem.v.end(), v.begin(), fa::to_bf16);
  std::vector<float> values(q_size);
  std::vector<std::vector<int64_t>> seen;
  for (int chapter = 3; chapter <= 8; ++chapter) {
    INFO("chapter ", chapter);
    const fa::simt::Report library = fa::simt::run({}, [&] {
      CHECK(flash_attention_forward(chapter, q.data(), k.data(), v.data(), o.data(), 1, 1, 64, 150,
                                    64, problem.scale, nullptr) == 0);
    });
    const std::vector<int64_t> counters = counted(library);
    CHECK(counters == counted(fa::run_on_emulator(builds[chapter - 3], problem, values).report));
    CHECK(std::count(seen.begin(), seen.end(), counters) == 0);
    seen.push_back(counters);
  }
}

TEST_CASE("what it cannot do is said in one sentence") {
  alignas(16) bf16 x[64] = {};
  const auto error = [&](int chapter, const void* q, int64_t length, int64_t dim, double scale) {
    CHECK(flash_attention_forward(chapter, q, x, x, x, 1, 1, length, 1, dim, scale, nullptr) == 1);
    return std::string(flash_attention_error());
  };
  CHECK(error(9, x, 1, 64, 1) == "chapter 9: this library has 3 to 8");
  CHECK(error(8, nullptr, 1, 64, 1) == "q is null or not aligned to 16 bytes");
  CHECK(error(8, x + 1, 1, 64, 1) == "q is null or not aligned to 16 bytes");
  CHECK(error(8, x, 0, 64, 1) == "shape 1,1,0,1,64: every size must be at least 1");
  CHECK(error(8, x, 1, 80, 1) == "head size 80: this chapter's kernel takes 64 and 128");
  CHECK(error(8, x, 1, 64, -1).find("positive scale") != std::string::npos);
}

}  // namespace
