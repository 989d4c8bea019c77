#include <doctest/doctest.h>

#include <algorithm>
#include <blocks_per_sm.hpp>
#include <string>

#include "exercises/support/verdict.hpp"

constexpr int KB = 1024;
constexpr Multiprocessor SM_80 = {164 * KB, 2048};
constexpr Multiprocessor SM_86 = {100 * KB, 1536};
constexpr Multiprocessor SM_90 = {228 * KB, 2048};

static void check_blocks(const std::string& what, const Multiprocessor& sm, const Kernel& kernel) {
  const auto limits = [&](int system, int rounded_to) {
    const int registers = (kernel.registers + rounded_to - 1) / rounded_to * rounded_to;
    return std::vector<int>{sm.shared_bytes / std::max(kernel.shared_bytes + system, 1),
                            sm.threads / kernel.threads,
                            sm.registers / (registers * kernel.threads)};
  };
  const auto smallest = [](const std::vector<int>& l) { return std::min({l[0], l[1], l[2]}); };
  const std::vector<int> right = limits(KB, 8);
  const auto number = [](int blocks) { return exercise::Numbers{static_cast<double>(blocks)}; };
  exercise::check_output(
      {"blocks of " + what, 0, 0}, number(blocks_per_sm(sm, kernel)), number(smallest(right)),
      {{"kilobyte-forgotten", number(smallest(limits(0, 8))),
        "each block pays 1 KB of shared memory to the system, besides its own"},
       {"registers-not-rounded", number(smallest(limits(KB, 1))),
        "registers are given out 8 at a time: 101 cost 104"},
       {"registers-forgotten", number(std::min(right[0], right[1])),
        "registers are a limit too: 65536 of them for all threads of all blocks"},
       {"largest-for-smallest", number(std::max({right[0], right[1], right[2]})),
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
TEST_CASE("50 KB twice in 100 KB") { check_blocks("50 KB on sm_86", SM_86, {50 * KB, 128, 168}); }
TEST_CASE("101 registers") { check_blocks("101 registers on sm_80", SM_80, {16 * KB, 128, 101}); }
TEST_CASE("a block that never fits") {
  check_blocks("101 KB on sm_86", SM_86, {101 * KB, 128, 64});
}
