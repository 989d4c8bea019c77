#include <doctest/doctest.h>

#include <algorithm>
#include <blocks_per_sm.hpp>
#include <initializer_list>
#include <string>

#include "exercises/support/verdict.hpp"

constexpr int KB = 1024;
constexpr Multiprocessor SM_80 = {164 * KB, 2048};
constexpr Multiprocessor SM_86 = {100 * KB, 1536};
constexpr Multiprocessor SM_90 = {228 * KB, 2048};

static void check_blocks(const std::string& what, const Multiprocessor& sm, const Kernel& kernel) {
  const auto least = [](std::initializer_list<int> limits) {
    return exercise::Numbers{static_cast<double>(std::min(limits))};
  };
  const auto by_shared = [&](int system) {
    return sm.shared_bytes / std::max(kernel.shared_bytes + system, 1);
  };
  const auto by_registers = [&](int of_a_thread) {
    return sm.registers / (of_a_thread * kernel.threads);
  };
  const int threads = sm.threads / kernel.threads, shared = by_shared(KB);
  const int rounded = (kernel.registers + 7) / 8 * 8, registers = by_registers(rounded);
  const auto up = [](int have, int cost) { return (have + cost - 1) / std::max(cost, 1); };
  exercise::check_output(
      {"blocks of " + what, 0, 0}, {static_cast<double>(blocks_per_sm(sm, kernel))},
      least({shared, threads, registers}),
      {{"kilobyte-forgotten", least({by_shared(0), threads, registers}),
        "each block pays 1 KB of shared memory to the system, besides its own"},
       {"kilobyte-not-for-zero",
        least({kernel.shared_bytes ? shared : 1 << 20, threads, registers}),
        "a block that asks for no shared memory pays 1 KB to the system all the same"},
       {"kilobyte-once",
        least({(sm.shared_bytes - KB) / std::max(kernel.shared_bytes, 1), threads, registers}),
        "the 1 KB for the system was counted once. Each block needs it"},
       {"kilobyte-of-1000", least({by_shared(1000), threads, registers}),
        "the 1 KB for the system is 1024 bytes"},
       {"kilobyte-as-one", least({by_shared(1), threads, registers}),
        "1 was added to a number of bytes; 1 KB is 1024 of them"},
       {"shared-forgotten", least({threads, registers}),
        "shared memory is a limit, too: a block needs its own bytes and 1 KB"},
       {"registers-not-rounded", least({shared, threads, by_registers(kernel.registers)}),
        "registers are given out 8 at a time to each thread, not to the block: 101 cost 104"},
       {"registers-rounded-down",
        least({shared, threads, by_registers(std::max(kernel.registers / 8 * 8, 8))}),
        "the registers were rounded down to a multiple of 8. They have to be rounded up"},
       {"one-step-too-many", least({shared, threads, by_registers((kernel.registers / 8 + 1) * 8)}),
        "a number that is a multiple of 8 already was rounded up to the next. Add 7, not 8"},
       {"registers-limit-nothing", least({shared, threads}),
        "registers limit nothing: they were left out, or the registers per thread were taken as "
        "those per warp. A block needs the registers per thread times its threads, of 65536"},
       {"threads-forgotten", least({shared, registers}),
        "threads are a limit too: an SM runs 2048 or 1536 at the same time"},
       {"blocks-rounded-up",
        least({up(sm.shared_bytes, kernel.shared_bytes + KB), up(sm.threads, kernel.threads),
               up(sm.registers, rounded * kernel.threads)}),
        "half a block does not run: round down"},
       {"largest-for-smallest",
        {static_cast<double>(std::max({shared, threads, registers}))},
        "the smallest limit counts: a block needs shared memory and registers and threads"}});
}

TEST_CASE("registers decide") {
  check_blocks("chapter 07 on sm_90", SM_90, {48 * KB, 128, 195});
  check_blocks("chapter 03 on sm_90", SM_90, {32 * KB, 128, 252});
}
TEST_CASE("shared memory decides") {
  check_blocks("chapter 07 on sm_86", SM_86, {48 * KB, 128, 195});
  check_blocks("64 KB and 96 registers on sm_86", SM_86, {64 * KB, 128, 96});
}
TEST_CASE("threads decide") { check_blocks("32 registers on sm_86", SM_86, {0, 512, 32}); }
TEST_CASE("no shared memory asked for, on an SM set to 16 KB of it, the rest a cache") {
  check_blocks("64 threads on 16 KB", {16 * KB, 2048}, {0, 64, 32});
}
TEST_CASE("50 KB twice in 100 KB") { check_blocks("50 KB on sm_86", SM_86, {50 * KB, 128, 168}); }
TEST_CASE("101 registers") { check_blocks("101 registers on sm_80", SM_80, {16 * KB, 128, 101}); }
TEST_CASE("103 registers") { check_blocks("103 registers on sm_80", SM_80, {16 * KB, 128, 103}); }
TEST_CASE("a block that never fits") {
  check_blocks("101 KB on sm_86", SM_86, {101 * KB, 128, 64});
}
TEST_CASE("64 registers, a multiple of 8") {
  check_blocks("64 registers on sm_80", SM_80, {0, 256, 64});
}
TEST_CASE("shared memory to the byte") {
  check_blocks("9473 bytes on sm_80", SM_80, {9473, 64, 32});
  check_blocks("10496 bytes on sm_80", SM_80, {10496, 64, 32});
  check_blocks("5385 bytes on sm_80", SM_80, {5385, 64, 32});
}
