#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "common/check.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/library/chapters.hpp"
#include "common/kernels/library/flash_attention.h"
#include "common/kernels/runner.hpp"

namespace {

using fa::bf16;

// A copy would free the same device memory twice.
static_assert(!std::is_copy_constructible_v<fa::GpuBuffer>);
static_assert(!std::is_copy_assignable_v<fa::GpuBuffer>);

std::vector<bf16> rounded(const std::vector<float>& values) {
  std::vector<bf16> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), fa::to_bf16);
  return result;
}

flash_attention_tensor tensor(const std::vector<bf16>& values, const std::vector<int64_t>& shape) {
  flash_attention_tensor result = FLASH_ATTENTION_NO_TENSOR;
  result.data = const_cast<bf16*>(values.data());
  int64_t stride = 1;
  for (size_t d = 4; d-- > 0; stride *= shape[d]) {
    result.shape[d] = shape[d];
    result.strides[d] = stride;
  }
  return result;
}

// A problem as arguments of the C interface. `o` is full of NaN.
struct Call {
  fa::Problem problem = fa::random_problem({1, 2, 70, 150, 64}, fa::Dtype::bf16, 9);
  std::vector<bf16> q = rounded(problem.q), k = rounded(problem.k), v = rounded(problem.v);
  std::vector<bf16> o = std::vector<bf16>(q.size(), bf16{0x7fff});
  std::vector<float> lse = std::vector<float>(problem.shape.rows());
  flash_attention_arguments arguments = FLASH_ATTENTION_DEFAULTS;

  Call() {
    arguments.q = tensor(q, {1, 2, 70, 64});
    arguments.k = tensor(k, {1, 2, 150, 64});
    arguments.v = tensor(v, {1, 2, 150, 64});
    arguments.o = tensor(o, {1, 2, 70, 64});
    arguments.scale = problem.scale;
  }
  // Workspace for the chapter, filled with NaN. Most chapters need none.
  std::vector<float> workspace;
  void give_workspace() {
    const int64_t bytes = flash_attention_workspace(&arguments);
    REQUIRE(bytes >= 0);
    workspace.assign(bytes / sizeof(float), std::nanf(""));
    if (bytes == 0) return;
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = bytes;
  }
  // True if the output is correct for the problem, or for the problem that the chapter computes.
  bool correct() const {
    std::vector<float> values(o.size());
    std::transform(o.begin(), o.end(), values.begin(), [](bf16 x) { return fa::to_float(x); });
    for (const fa::Kernel* chapter : fa::kernel_chapters())
      if (chapter->number() == arguments.chapter && chapter->computed)
        return fa::check_output(chapter->computed(problem, {}), values, {}).passed();
    return fa::check_output(problem, values, {}).passed();
  }
  std::string error() const {
    CHECK(flash_attention(&arguments) == 1);
    return flash_attention_error();
  }
};

TEST_CASE("every chapter answers through the C interface, on host memory") {
  for (const int chapter : {FA_CHAPTERS}) {
    INFO("chapter ", chapter);
    for (const int device : {FLASH_ATTENTION_EMULATOR, FLASH_ATTENTION_WHERE_Q_IS}) {
      Call call;
      call.arguments.chapter = chapter;
      call.arguments.device = device;
      call.give_workspace();
      REQUIRE(flash_attention(&call.arguments) == 0);
      CHECK(call.correct());
    }
    Call call;
    const int status =
        flash_attention_forward(chapter, call.q.data(), call.k.data(), call.v.data(), call.o.data(),
                                1, 2, 70, 150, 64, call.problem.scale, nullptr);
    if (chapter == 17 || chapter == 21 || chapter == 23) {  // they need a workspace
      CHECK(status == 1);
      CHECK(std::string(flash_attention_error())
                .find("workspace of 0 bytes: ch" + std::to_string(chapter)) == 0);
      continue;
    }
    REQUIRE(status == 0);
    CHECK(call.correct());
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
  const fa::Problem problem = fa::random_problem({1, 1, 64, 150, 64}, fa::Dtype::bf16, 9);
  const size_t q_size = problem.q.size(), kv_size = problem.k.size();
  // Aligned as the runner aligns them, because the number of sectors depends on it.
  fa::simt::Buffer<bf16> q(q_size, "q"), k(kv_size, "k"), v(kv_size, "v"), o(q_size, "o");
  std::transform(problem.q.begin(), problem.q.end(), q.begin(), fa::to_bf16);
  std::transform(problem.k.begin(), problem.k.end(), k.begin(), fa::to_bf16);
  std::transform(problem.v.begin(), problem.v.end(), v.begin(), fa::to_bf16);
  std::vector<float> values(q_size);
  std::vector<std::vector<int64_t>> seen;
  for (const fa::Kernel* kernel : fa::kernel_chapters()) {
    const int chapter = kernel->number();
    if (kernel->forward_workspace) continue;
    INFO("chapter ", chapter);
    const fa::simt::Report library = fa::simt::run({}, [&] {
      CHECK(flash_attention_forward(chapter, q.data(), k.data(), v.data(), o.data(), 1, 1, 64, 150,
                                    64, problem.scale, nullptr) == 0);
    });
    const std::vector<int64_t> counters = counted(library);
    CHECK(counters == counted(fa::forward_on_emulator(*kernel, problem, values).report));
    CHECK(std::count(seen.begin(), seen.end(), counters) == 0);
    seen.push_back(counters);
  }
}

TEST_CASE("what it cannot do is said in one sentence") {
  const auto error = [](auto change) {
    Call call;
    call.arguments.chapter = 8;
    change(call.arguments);
    return call.error();
  };
  using Arguments = flash_attention_arguments;
  CHECK(flash_attention(nullptr) == 1);
  CHECK(error([](Arguments& a) { a.size = 8; }).find("arguments of 8 bytes") == 0);
  CHECK(error([](Arguments& a) { a.chapter = 99; }).find("chapter 99: this library has 3, 4, ") ==
        0);
  CHECK(error([](Arguments& a) { a.q.data = nullptr; }) == "q is null or not aligned to 16 bytes");
  CHECK(error([](Arguments& a) { a.v.data = static_cast<char*>(a.v.data) + 2; }) ==
        "v is null or not aligned to 16 bytes");
  CHECK(error([](Arguments& a) { a.k.type = 7; }).find("k: type 7 is none of") == 0);
  CHECK(error([](Arguments& a) { a.k.type = FLASH_ATTENTION_FP16; }).find("must have one type") !=
        std::string::npos);
  CHECK(error([](Arguments& a) { a.q.shape[2] = a.o.shape[2] = 0; }) ==
        "shape [1, 2, 0, 64]: every size must be at least 1");
  CHECK(error([](Arguments& a) {
          for (auto* t : {&a.q, &a.k, &a.v, &a.o}) {
            t->shape[3] = t->strides[2] = 80;
            t->strides[1] = 80 * t->shape[2];
          }
        }) == "head size 80: this chapter's kernel takes 64 and 128");
  CHECK(error([](Arguments& a) { a.scale = -1; }).find("positive scale") != std::string::npos);
  CHECK(error([](Arguments& a) { a.scale = 1e300 * 1e300; }).find("finite") != std::string::npos);
  CHECK(error([](Arguments& a) { a.window_right = 0; }) == "ch08 takes no causal mask");
  CHECK(error([](Arguments& a) { a.window_left = 3; }) == "ch08 takes no sliding window");
  CHECK(error([](Arguments& a) { a.window_left = -7; }).find("a window of -7") == 0);
  CHECK(error([](Arguments& a) {
          a.k.shape[1] = a.v.shape[1] = 1;
        }).find("ch08 takes no grouped") == 0);
  CHECK(error([](Arguments& a) { a.q.strides[2] = 128; }) == "ch08 takes no strided tensors");
  CHECK(error([](Arguments& a) { a.q.strides[2] = -64; }).find("a stride of -64") == 0);
  CHECK(error([](Arguments& a) { a.q.strides[2] = int64_t{1} << 62; }).find("spans more than") !=
        std::string::npos);
  CHECK(error([](Arguments& a) { a.o.strides[2] = 0; }).find("O is written, and its strides") == 0);
  CHECK(error([](Arguments& a) { a.scale = 1e39; }).find("scale 1e+39: expected a finite") == 0);
  CHECK(error([](Arguments& a) { a.softcap = 1e39; }).find("softcap 1e+39: expected 0") == 0);
  Call with_lse;
  with_lse.arguments.chapter = 8;
  with_lse.arguments.lse = {
      with_lse.lse.data(), FLASH_ATTENTION_FP32, 0, {1, 2, 70, 1}, {140, 70, 1, 1}};
  CHECK(with_lse.error() == "ch08 takes no log-sum-exp");
}

TEST_CASE("sizes whose product passes 64 bits are refused, through both entry points") {
  Call call;
  constexpr int64_t BATCH = 7905747460161236407;  // times 7 heads is 1 in 64 bits
  call.arguments.q.shape[0] = call.arguments.k.shape[0] = BATCH;
  call.arguments.v.shape[0] = call.arguments.o.shape[0] = BATCH;
  CHECK(call.error().find("a tensor of more than 2^40 elements") != std::string::npos);
  CHECK(flash_attention_forward(8, call.q.data(), call.k.data(), call.v.data(), call.o.data(),
                                BATCH, 7, 1, 1, 64, 1.0, nullptr) == 1);
  CHECK(std::string(flash_attention_error()).find("2^40") != std::string::npos);
}

TEST_CASE("arguments of the first version, which ended with the stream") {
  Call first, now;
  REQUIRE(flash_attention(&now.arguments) == 0);
  first.arguments.size = offsetof(flash_attention_arguments, cu_seqlens_q);
  // The library must not read memory after the structure.
  std::memset(reinterpret_cast<char*>(&first.arguments) + first.arguments.size, 0x55,
              sizeof first.arguments - first.arguments.size);
  REQUIRE_MESSAGE(flash_attention(&first.arguments) == 0, flash_attention_error());
  CHECK(std::memcmp(first.o.data(), now.o.data(), now.o.size() * sizeof(bf16)) == 0);
  first.arguments.size += 8;  // no version ended there
  CHECK(first.error().find("arguments of ") == 0);
  first.arguments.size = sizeof first.arguments + 8;  // a later version
  CHECK(first.error().find("arguments of ") == 0);
}

TEST_CASE("a GPU that is not there") {
  Call call;
  call.arguments.device = 1000;
  CHECK(!call.error().empty());
}

// The same call with its tensors in the memory of the current GPU.
struct GpuCall : Call {
  fa::GpuBuffer q_gpu{q.size() * sizeof(bf16), "Q"}, k_gpu{k.size() * sizeof(bf16), "K"};
  fa::GpuBuffer v_gpu{v.size() * sizeof(bf16), "V"}, o_gpu{o.size() * sizeof(bf16), "O"};

  GpuCall() {
    q_gpu.upload(q.data());
    k_gpu.upload(k.data());
    v_gpu.upload(v.data());
    o_gpu.upload(o.data());
    arguments.q.data = q_gpu.data();
    arguments.k.data = k_gpu.data();
    arguments.v.data = v_gpu.data();
    arguments.o.data = o_gpu.data();
  }
  bool correct() {
    o_gpu.download(o.data());
    return Call::correct();
  }
};

int current_gpu() { return fa::gpu_of_pointer(fa::GpuBuffer(256, "probe").data()); }

bool has_gpus(int number) {
  std::string problem = fa::gpu_problem();
  if (problem.empty()) {
    try {
      const fa::CurrentGpu last(number - 1);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  if (!problem.empty()) MESSAGE("skipped, it takes " << number << " GPU(s): " << problem);
  return problem.empty();
}

TEST_CASE("on a GPU" * doctest::test_suite("gpu")) {
  if (!has_gpus(1)) return;
  for (const fa::Kernel* chapter : fa::kernel_chapters()) {
    if (!fa::gpu_problem(*chapter->gpu).empty()) continue;
    if (chapter->forward_workspace) continue;  // its own tests run it on a GPU
    for (const int device : {0, static_cast<int>(FLASH_ATTENTION_WHERE_Q_IS)}) {
      GpuCall call;
      call.arguments.chapter = chapter->number();
      call.arguments.device = device;
      INFO(chapter->name);
      REQUIRE_MESSAGE(flash_attention(&call.arguments) == 0, flash_attention_error());
      CHECK(call.correct());
    }
  }
  GpuCall call;
  const Call on_host;
  call.arguments.k.data = on_host.arguments.k.data;
  CHECK(call.error() == "k is in host memory, expected GPU 0's memory");
  call.arguments.device = FLASH_ATTENTION_EMULATOR;
  CHECK(call.error() == "q is in GPU 0's memory, expected host memory");
  Call with_gpu_there;  // tensors in host memory still use the emulator
  REQUIRE(flash_attention(&with_gpu_there.arguments) == 0);
  CHECK(with_gpu_there.correct());
}

TEST_CASE("a child of fork, after its parent has used the GPU" * doctest::test_suite("gpu")) {
  if (!has_gpus(1)) return;
  GpuCall call;
  REQUIRE(flash_attention(&call.arguments) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {  // no doctest in the child process: the exit status identifies the failed check
    Call on_host;
    on_host.arguments.device = FLASH_ATTENTION_EMULATOR;
    if (flash_attention(&on_host.arguments) != 0 || !on_host.correct()) _exit(1);
    for (const int device : {0, static_cast<int>(FLASH_ATTENTION_WHERE_Q_IS)}) {
      call.arguments.device = device;
      if (flash_attention(&call.arguments) != 1) _exit(2);
      if (!std::strstr(flash_attention_error(), "was forked from one")) _exit(3);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(call.correct());  // the parent process continues
}

TEST_CASE("tensors on another GPU than the current one" * doctest::test_suite("two gpus")) {
  if (!has_gpus(2)) return;
  const auto on_second = [] {
    const fa::CurrentGpu second(1);
    return std::make_unique<GpuCall>();
  };
  const auto call = on_second();
  REQUIRE(current_gpu() == 0);
  for (const int device : {1, static_cast<int>(FLASH_ATTENTION_WHERE_Q_IS)}) {
    call->arguments.device = device;
    call->o_gpu.upload(std::vector<bf16>(call->o.size(), bf16{0x7fff}).data());
    REQUIRE_MESSAGE(flash_attention(&call->arguments) == 0, flash_attention_error());
    CHECK(current_gpu() == 0);
    CHECK(call->correct());
  }
  const GpuCall first;
  call->arguments.device = FLASH_ATTENTION_WHERE_Q_IS;
  call->arguments.v.data = first.arguments.v.data;
  CHECK(call->error() == "v is in GPU 0's memory, expected GPU 1's memory");
  CHECK(current_gpu() == 0);
}

}  // namespace
