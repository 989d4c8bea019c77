// Limits of the emulator are errors with a sentence, for example stack overflow, endless loops, too
// little memory.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "common/simt/device.hpp"
#include "common/simt/fiber.hpp"
#include "common/simt/overflow.hpp"
#include "common/simt/simt.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::Config;

void writes_its_number(int* out) {
  block_sync();
  const int i = block_index() * block_size().x + thread_index();
  store_global(out + i, i);
}

bool runs(const Config& config, int grid, int block) {
  Buffer<int> out(static_cast<size_t>(grid) * static_cast<size_t>(block), "out");
  const auto report =
      fa::simt::run(config, [&] { launch(writes_its_number, grid, block, 0, out.data()); });
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != static_cast<int>(i)) return false;
  }
  return report.hazards.empty();
}

#if !defined(FA_SIMT_ASAN) && !defined(FA_SIMT_TSAN)  // the sanitizers use the signals and the
                                                      // memory themselves

#ifdef __linux__

void loops_without_end(const volatile int* flag) {
  block_sync();
  while (thread_index() == 5 && *flag == 0) {
  }
  block_sync();
}

TEST_CASE("a loop without an instruction that does not end") {
  const int before = fa::simt::loop_limit_ms.exchange(300);
  volatile int flag = 0;
  CHECK_THROWS_WITH_AS(launch(loops_without_end, 2, 64, 0, &flag),
                       doctest::Contains("thread 5 of block "), std::runtime_error);
  CHECK_THROWS_WITH_AS(
      launch(loops_without_end, 2, 64, 0, &flag),
      doctest::Contains("has computed for 300 ms without beginning an instruction"),
      std::runtime_error);
  flag = 1;
  CHECK_NOTHROW(launch(loops_without_end, 2, 64, 0, &flag));
  fa::simt::loop_limit_ms = before;
}

#endif

struct Guard {  // counts live objects
  explicit Guard(int* alive_) : alive(alive_) { ++*alive; }
  ~Guard() { --*alive; }
  int* alive;
};

// Recurses until its arrays exceed any stack.
float descend(int depth) {
  volatile float local[1000];
  local[depth % 1000] = static_cast<float>(depth);
  return depth == 0 ? 0 : descend(depth - 1) + local[depth % 1000];
}

void small_arrays(int who, int* alive, float* out) {
  const Guard guard(alive);
  block_sync();
  if (thread_index() == who) *out = descend(1000);
  block_sync();
}

// Exceeds its stack with a single array, whose first access is far below the stack.
[[gnu::noinline]] float large_array() {
  volatile float local[100'000];
  local[0] = 1;
  return local[0];
}

void one_large_array(int who, int* alive, float* out) {
  const Guard guard(alive);
  if (thread_index() == who) *out = large_array();
}

TEST_CASE("a stack overflow is an error message, and the emulator continues") {
  float out = 0;
  for (const auto kernel : {small_arrays, one_large_array}) {
    for (const int who : {0, 5, 63}) {
      int alive = 0;
      Config config{.threads = 1};
      const std::string expected =
          "local arrays of thread " + std::to_string(who) + " of block 0 exceed 256 KB";
      CHECK_THROWS_WITH_AS(
          fa::simt::run(config, [&] { launch(kernel, 1, 64, 0, who, &alive, &out); }),
          doctest::Contains(expected.c_str()), std::runtime_error);
      CHECK(alive <= 1);  // all threads were unwound, except the one whose stack is lost
      CHECK(runs({}, 8, 64));
    }
  }
  int alive = 0;
  Config config;
  config.threads = 4;  // on any CPU thread
  CHECK_THROWS_WITH_AS(
      fa::simt::run(config, [&] { launch(one_large_array, 4, 1, 0, 0, &alive, &out); }),
      doctest::Contains("local arrays of thread 0 of block"), std::runtime_error);
}

size_t bytes_in_use() {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return static_cast<size_t>(pages) * 4096;
}

// Limits the memory of this process to this number of bytes.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE("without stacks for all CPU threads, fewer run; without any, a sentence says so") {
  Config config{.threads = 4};
  CHECK(runs(config, 8, 32));  // starts the CPU threads
  {
    const MemoryLimit limit(bytes_in_use() + (size_t{1200} << 20));  // a block of 1024 reserves 768
                                                                     // MB that it never touches
    CHECK(runs(config, 6, 1024));
  }
  Buffer<int> out(6 * 992, "out");
  const MemoryLimit limit(size_t{16} << 20);  // less than it uses already
  CHECK_THROWS_WITH_AS(
      fa::simt::run(config, [&] { launch(writes_its_number, 6, 992, 0, out.data()); }),
      doctest::Contains("vm.max_map_count"), std::runtime_error);
}

#endif

TEST_CASE("blocks on several CPU threads") {
  for (const int threads : {1, 2, 8}) {
    Config config{.threads = threads};
    CHECK(runs(config, 20, 96));
  }
}

}  // namespace
