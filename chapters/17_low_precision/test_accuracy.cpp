#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "accuracy.hpp"
#include "common/fp8.hpp"
#include "common/tensor_core.hpp"

using namespace ch17;
constexpr int kProducts = fa::kSumRule<fa::e4m3>.products;

namespace {

const Scheme& scheme(const std::string& name) {
  for (const Scheme& one : schemes())
    if (one.name == name) return one;
  FAIL("no scheme " << name);
  return schemes()[0];
}

double rmse(const Input& input, const std::string& name) {
  const auto got = low_precision_attention(scheme(name), input.head, input.rows, 1);
  return errors_of(got, exact_attention(input.head, input.rows)).rmse;
}

// Returns the model's sum of an accumulator and these products.
float summed(float accumulator, std::vector<float> products) {
  products.resize(kProducts);
  const std::vector<float> ones(kProducts, 1.0f);
  fa::tensor_core_add<fa::e4m3>(&accumulator, 1, products.data(), 1, ones.data());
  return accumulator;
}

}  // namespace

TEST_CASE("tensor core: 13 bits below the largest term, cut toward zero") {
  CHECK(summed(1, {2, 3, -4.5f}) == 1.5f);
  CHECK(summed(0, {}) == 0);
  CHECK(summed(1, {0x1p-13f}) == 1 + 0x1p-13f);
  CHECK(summed(1, std::vector<float>(32, 0x1.fp-14f)) == 1);  // each is lost, although their sum is
                                                              // not
  CHECK(summed(-1, std::vector<float>(32, -0x1.fp-14f)) == -1);
  CHECK(summed(0, std::vector<float>(32, 0x1.fp-14f)) == 32 * 0x1.fp-14f);
  CHECK(summed(1, {-0x1.8p-13f}) == 1 - 0x1p-13f);  // the term is truncated, not the result
  // The sum has 13 bits below its leading one, so 3 + 2^-13 is 3.
  CHECK(summed(1.5f, {1.5f, 0x1p-13f}) == 3);
  CHECK(std::isnan(summed(1, {std::numeric_limits<float>::quiet_NaN()})));
  CHECK(summed(HUGE_VALF, {1}) == HUGE_VALF);
}

TEST_CASE("tensor core: what an H200 made of random numbers, bit for bit") {
  std::ifstream file(FA_ROOT "/docs/measurements/h200/ch17_fp8_sums.txt");
  std::string line;
  int sums = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    uint32_t before = 0, after = 0;
    std::string a, b;
    if (!(words >> std::hex >> before >> after >> a >> b) || a.size() != 64) continue;
    const auto numbers = [](const std::string& hex) {
      std::vector<float> result;
      for (size_t i = 0; i < hex.size(); i += 2) {
        const int code = std::stoi(hex.substr(i, 2), nullptr, 16);
        result.push_back(fa::to_float(fa::e4m3{static_cast<uint8_t>(code)}));
      }
      return result;
    };
    float sum = std::bit_cast<float>(before);
    fa::tensor_core_add<fa::e4m3>(&sum, 1, numbers(a).data(), 1, numbers(b).data());
    CHECK(std::bit_cast<uint32_t>(sum) == after);
    ++sums;
  }
  CHECK(sums == 200);
}

TEST_CASE("tensor core: ones are counted to 2^14") {
  float sum = 0;
  for (int i = 0; i < 1000; ++i) sum = summed(sum, std::vector<float>(32, 1.0f));
  CHECK(sum == 0x1p14f);
}

TEST_CASE("tensor core: columns do not meet") {
  constexpr int kColumns = 70;
  std::vector<float> sums(kColumns), a(kProducts), b(kProducts * kColumns);
  for (int k = 0; k < kProducts; ++k) {
    a[k] = static_cast<float>(k % 5 - 2);
    for (int c = 0; c < kColumns; ++c) b[k * kColumns + c] = static_cast<float>((k * c) % 7);
  }
  fa::tensor_core_add<fa::e4m3>(sums.data(), kColumns, b.data(), kColumns, a.data());
  for (int c = 0; c < kColumns; ++c) {
    float want = 0;
    for (int k = 0; k < kProducts; ++k) want += a[k] * b[k * kColumns + c];
    CHECK(sums[c] == want);
  }
}

TEST_CASE("numbers too small for a scale's inverse stay finite") {
  for (const float size : {1e-36f, 1e-38f, 1e-41f, 1e-44f}) {
    Head head{8, 70, 8, {}, {}, {}};
    for (auto* const x : {&head.q, &head.k, &head.v}) {
      x->resize((x == &head.q ? head.queries : head.keys) * head.dim);
      for (size_t i = 0; i < x->size(); ++i) (*x)[i] = static_cast<float>(i % 3) * size;
    }
    const std::vector<int64_t> rows{0, 7};
    for (const Scheme& one : schemes()) {
      CAPTURE(one.name);
      CAPTURE(size);
      for (const float x : low_precision_attention(one, head, rows, 1))
        CHECK(std::abs(x) <= 3 * size);
    }
  }
}

TEST_CASE("a scale for each group, and nothing farther than half a step") {
  const int64_t dim = 8, rows = 200;
  std::vector<float> x(rows * dim);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i));
  const struct {
    Grain grain;
    size_t of_queries, of_keys;  // scales of 200 rows
  } expected[] = {
      {Grain::TENSOR, 1, 1}, {Grain::BLOCK, 2, 4}, {Grain::WARP, 7, 4}, {Grain::THREAD, 56, 16}};
  for (const auto& [grain, of_queries, of_keys] : expected) {
    for (const bool is_query : {true, false}) {
      auto codes = x;
      for (int64_t r = 0; r < rows; ++r)  // no two rows have the same largest element
        codes[r * dim] = 2 + static_cast<float>(r) / 128;
      const auto original = codes;
      const auto scales = quantize(codes, dim, Format::INT8, grain, is_query);
      CHECK(std::set(scales.begin(), scales.end()).size() == (is_query ? of_queries : of_keys));
      for (int64_t i = 0; i < rows * dim; ++i) {
        REQUIRE(std::abs(codes[i]) <= 127);
        REQUIRE(codes[i] == std::nearbyint(codes[i]));
        REQUIRE(std::abs(codes[i] * scales[i / dim] - original[i]) <= 0.501f * scales[i / dim]);
      }
    }
  }
  std::vector<float> fp8{-448, 1, 896, 0.25f};
  CHECK(quantize(fp8, 4, Format::E4M3, Grain::TENSOR, true) == std::vector{2.0f});
  CHECK(fp8 == std::vector<float>{-224, 0.5f, 448, 0.125f});
  std::vector<float> zeros(4);
  CHECK(quantize(zeros, 4, Format::INT8, Grain::TENSOR, true) == std::vector{1.0f});
  CHECK(zeros == std::vector<float>(4));
}

TEST_CASE("smoothing and rotation change no output") {
  const Input input = make_input("k-mean", 256, 64, 8, 3);
  Head changed = input.head;
  smooth(changed.k, 64);
  rotate(changed.q, 64, 5);
  rotate(changed.k, 64, 5);
  CHECK(changed.q != input.head.q);
  const auto want = exact_attention(input.head, input.rows);
  const auto got = exact_attention(changed, input.rows);
  const std::vector<float> as_float(got.begin(), got.end());
  CHECK(errors_of(as_float, want).rmse <= 1e-6);
  CHECK_THROWS_WITH(rotate(changed.q, 48, 5), doctest::Contains("expected a power of two"));
}

TEST_CASE("the three measures") {
  const Errors errors = errors_of(std::vector{3.0f, 4.0f}, std::vector{3.0, 0.0});
  CHECK(errors.rmse == doctest::Approx(std::sqrt(8.0)));
  CHECK(errors.cosine == doctest::Approx(0.6));
  CHECK(errors.relative_l1 == doctest::Approx(4.0 / 3));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Errors bad = errors_of(std::vector{nan, 4.0f}, std::vector{3.0, 4.0});
  CHECK((std::isnan(bad.rmse) && std::isnan(bad.cosine) && std::isnan(bad.relative_l1)));
  CHECK(std::isnan(errors_of(std::vector{1.0f}, std::vector{1.0, 1.0}).rmse));
  CHECK(std::isnan(errors_of({}, {}).rmse));
}

TEST_CASE("every scheme: ragged lengths, any dim, a NaN shows") {
  for (const int64_t keys : {1, 70, 129}) {
    for (const int64_t dim : {8, 64}) {
      Input input = make_input("normal", keys, dim, 5, 7);
      for (const Scheme& one : schemes()) {
        CAPTURE(one.name);
        CAPTURE(keys);
        CHECK(rmse(input, one.name) <= (one.qk == Format::NVFP4 ? 0.3 : 0.1));
      }
    }
  }
  Input input = make_input("normal", 130, 64, 5, 7);
  for (std::vector<float>* matrix : {&input.head.q, &input.head.k, &input.head.v}) {
    auto& bad = (*matrix)[input.rows[1] * 64 + 3];
    const float good = bad;
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF}) {
      bad = value;
      for (const Scheme& one : schemes()) {
        const auto got = low_precision_attention(one, input.head, input.rows, 1);
        CAPTURE(one.name);
        CHECK(!std::isfinite(got[64 + 3]));  // row 1, which all three affect
      }
    }
    bad = good;
  }
}

TEST_CASE("each remedy helps where its lesson says so") {
  const Input normal = make_input("normal", 1024, 64, 32, 1);
  CHECK(rmse(normal, "fp16") < rmse(normal, "bf16") / 4);
  CHECK(rmse(normal, "bf16") < rmse(normal, "int8-thread") / 2);
  CHECK(rmse(normal, "int8-thread") < rmse(normal, "int8-tensor"));
  CHECK(rmse(normal, "int8-tensor") < rmse(normal, "fp8-block") / 2);
  CHECK(rmse(normal, "fp8-block") < rmse(normal, "nvfp4") / 2);
  CHECK(rmse(normal, "fp8-block") < rmse(normal, "mxfp8"));  // e8m0 scales clip the largest numbers

  const Input mean = make_input("k-mean", 1024, 64, 32, 1);
  for (const std::string name :
       {"int8-tensor", "int8-block", "int8-warp", "int8-thread", "fp8-block", "nvfp4"})
    CHECK(rmse(mean, name + "-smooth") < rmse(mean, name) / 2);
  CHECK(rmse(mean, "fp8-block-hadamard") > rmse(mean, "fp8-block") / 2);

  const Input outliers = make_input("outliers", 1024, 64, 32, 1);
  CHECK(rmse(outliers, "fp8-tensor-hadamard") < rmse(outliers, "fp8-tensor") / 1.5);
  CHECK(rmse(outliers, "int8-thread") < rmse(outliers, "int8-tensor") / 1.5);

  const Input sink = make_input("sink", 1024, 64, 32, 1);
  CHECK(rmse(sink, "fp8-block-unscaled") > 4 * rmse(sink, "fp8-block"));
}

TEST_CASE("the tensor core's sums do for short contexts, not for long ones") {
  const Input long_v = make_input("long-v", 65536, 32, 2, 1);
  CHECK(rmse(long_v, "fp8-block-one-level") > 50 * rmse(long_v, "fp8-block"));
  const Input short_v = make_input("long-v", 1024, 32, 2, 1);
  CHECK(rmse(short_v, "fp8-block-one-level") < 1.5 * rmse(short_v, "fp8-block"));
}
