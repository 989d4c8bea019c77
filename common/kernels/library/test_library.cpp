#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "common/kernels/library/flash_attention.h"

namespace {

using fa::bf16;

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
