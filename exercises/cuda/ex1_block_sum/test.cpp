#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "exercises/support/cuda.hpp"

using exercise::Numbers;

constexpr int THREADS = 256, WARPS = THREADS / 32;

// The sums of the numbers that count, by their places in the block.
static Numbers sums(int n, const std::function<bool(int place)>& counts) {
  Numbers all;
  for (int i = 0; i < n; ++i) {
    if (i % THREADS == 0) all.push_back(0);
    if (counts(i % THREADS)) all.back() += 1 + i * 7 % 13;
  }
  return all;
}

static void check_sums(int n) {
  const exercise::CudaRun run = exercise::run_cuda({std::to_string(n)});
  const Numbers got = run.numbers("sums"), expected = sums(n, [](int) { return true; });
  const auto blocks = static_cast<int64_t>(expected.size());
  const int64_t barriers = run.counter("barriers"), enough = 3 * WARPS * blocks;
  const bool right = run.hazards.empty() && got == expected;
  const std::vector<exercise::Suspect> suspects = {
      {"one-sync-per-step", run.only({"overwrite_while_read"}) && run.within_warps(),
       "one __syncwarp per step is not enough if all lanes add: lane 0 reads partial[16] in the "
       "same "
       "step in which lane 16 overwrites it. Put one between the reads and the writes as well, or "
       "let only lanes below `half` add, or use shuffles"},
      {"first-barrier-late", run.only({"read_before_barrier"}) && !run.within_warps(),
       "the first addition reads what other warps have stored, and no barrier is between the two"},
      {"short-mask", run.only({"barrier_divergence"}),
       "all 32 lanes execute the shuffle, so all 32 bits of its mask have to be set"},
      {"early-return", run.has("uninitialized_read"),
       "threads past the end have returned and have left their words of shared memory unwritten. "
       "They have to store 0"},
      {"barrier-in-a-branch", right && barriers == enough + 5 * blocks,
       "right, but __syncthreads is inside a branch. It ends here only because the other warps "
       "have "
       "returned. If they had more to do, the block would wait forever"},
      {"barrier-each-step", right && barriers == 8 * WARPS * blocks,
       "right, but all warps wait at a barrier for the last five steps, in which one warp works"}};
  if (!exercise::check_no_hazards(run, suspects)) return;
  exercise::check_output(
      {"sums", 0, 0}, got, expected,
      {{"last-step-lost", sums(n, [](int place) { return place % 2 == 0; }),
        "the last distance is 1. Without it only every second number counts"},
       {"upper-half-lost", sums(n, [](int place) { return place < THREADS / 2; }),
        "the first step has to add the upper half of all 256 sums"}});
  if (got != expected) return;
  exercise::check(barriers <= enough,
                  "right, but the warps wait " + std::to_string(barriers) + " times at barriers, " +
                      std::to_string(enough) + " would do",
                  suspects);
}

TEST_CASE("three whole blocks") { check_sums(768); }
TEST_CASE("the last block has 188 numbers") { check_sums(700); }
