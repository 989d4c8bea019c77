// Inputs that chapters accept and refuse, and the device on which their kernels run.
#include <doctest/doctest.h>

#include <string>

#include "common/error.hpp"
#include "common/kernels/kernel.hpp"

using namespace fa;

namespace {

TensorRef tensor(std::array<int64_t, 4> shape, Dtype dtype = Dtype::bf16) {
  static char memory[1];
  return {memory, dtype, shape, contiguous_strides(shape)};
}

ForwardArgs plain() {
  return {.q = tensor({1, 4, 8, 64}),
          .k = tensor({1, 4, 9, 64}),
          .v = tensor({1, 4, 9, 64}),
          .o = tensor({1, 4, 8, 64})};
}

std::string refusal(uint32_t features, const ForwardArgs& args) {
  const Kernel chapter{
      .name = "ch42_test", .emulator = nullptr, .gpu = nullptr, .features = features};
  try {
    check_arguments(chapter, args);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST_CASE("a chapter takes the features it declares, and refuses each of the others by name") {
  CHECK(refusal(0, plain()) == "");
  const auto with = [](auto change) {
    ForwardArgs args = plain();
    change(args);
    return args;
  };
  const std::pair<Feature, ForwardArgs> asked[] = {
      {CAUSAL, with([](ForwardArgs& a) { a.window_right = 0; })},
      {WINDOW, with([](ForwardArgs& a) { a.window_left = 0, a.window_right = 0; })},
      {WINDOW, with([](ForwardArgs& a) { a.window_right = 1; })},
      {LSE, with([](ForwardArgs& a) {
         a.lse = tensor({1, 4, 8, 1}, Dtype::f32);
       })},
      {KV_HEADS, with([](ForwardArgs& a) {
         a.k = a.v = tensor({1, 2, 9, 64});
       })},
      {STRIDES, with([](ForwardArgs& a) {
         a.v.strides = {2304, 64, 256, 1};
       })},
      {FP16, with([](ForwardArgs& a) {
         for (TensorRef* t : {&a.q, &a.k, &a.v, &a.o}) t->dtype = Dtype::f16;
       })}};
  for (const auto& one : asked) {
    CAPTURE(one.first);
    CHECK(features_of(one.second) == one.first);
    CHECK(refusal(one.first, one.second) == "");
    CHECK(refusal(~one.first, one.second).find("ch42 takes no ") == 0);
  }
}

TEST_CASE("tensors that do not fit together are refused whatever a chapter takes") {
  const auto refused = [](auto change) {
    ForwardArgs args = plain();
    change(args);
    return refusal(~0u, args);
  };
  CHECK(refused([](ForwardArgs& a) {
          a.v = tensor({1, 4, 8, 64});
        }).find("K is [1, 4, 9, 64]") == 0);
  CHECK(refused([](ForwardArgs& a) {
          a.o = tensor({1, 4, 9, 64});
        }).find("Q is [1, 4, 8, 64]") == 0);
  CHECK(refused([](ForwardArgs& a) {
          a.k = a.v = tensor({2, 4, 9, 64});
        }).find("batch") != std::string::npos);
  CHECK(refused([](ForwardArgs& a) {
          a.k = a.v = tensor({1, 3, 9, 64});
        }) == "4 heads of Q cannot share 3 heads of K and V, because 3 does not divide 4");
  CHECK(refused([](ForwardArgs& a) {
          a.lse = tensor({1, 4, 9, 1}, Dtype::f32);
        }).find("LSE is") == 0);
  CHECK(refused([](ForwardArgs& a) { a.lse = tensor({1, 4, 8, 1}); }) == "LSE must be fp32");
  CHECK(refused([](ForwardArgs& a) { a.o.dtype = Dtype::f16; }).find("one type") !=
        std::string::npos);
  CHECK(refused([](ForwardArgs& a) { a.window_left = -2; }).find("a window of -2 keys") == 0);
}

TEST_CASE("machine code for one card runs there only, other code there and on newer cards") {
  CHECK(machine_code_fits("sm_80", 80));
  CHECK(machine_code_fits("sm_80", 120));
  CHECK_FALSE(machine_code_fits("sm_80", 75));
  CHECK(machine_code_fits("sm_90a", 90));
  CHECK_FALSE(machine_code_fits("sm_90a", 89));
  CHECK_FALSE(machine_code_fits("sm_90a", 100));
}

TEST_CASE("a kernel that this build leaves out says why") {
  CHECK(gpu_problem(KernelBuild{.left_out = "no such machine code"}) == "no such machine code");
}

TEST_CASE("dimensions of size 1 have no stride that matters; a tensor's extent counts its gaps") {
  TensorRef one = tensor({1, 1, 5, 8});
  one.strides[0] = one.strides[1] = 12345;
  CHECK(is_contiguous(one));
  CHECK(extent(one) == 40);
  one.strides[2] = 16;
  CHECK_FALSE(is_contiguous(one));
  CHECK(extent(one) == 4 * 16 + 8);
  one.strides[2] = -8;
  CHECK_THROWS_AS(extent(one), InputError);
  one.strides[2] = int64_t{1} << 61;
  CHECK_THROWS_AS(extent(one), InputError);
}

}  // namespace
