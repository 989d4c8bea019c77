// Barriers and warp instructions that not every thread reaches, and kernels that throw.

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "common/simt/device.hpp"
#include "common/simt/simt.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::Config;
using fa::simt::HazardKind;
using fa::simt::Report;

constexpr int kThreads = 128;

Report run_kernel(void (*kernel)(bool), bool broken, uint64_t seed) {
  Config config{.schedule_seed = seed};
  return fa::simt::run(config, [&] { launch(kernel, 3, kThreads, 1024, broken); });
}

void check_twins(void (*kernel)(bool)) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const Report report = run_kernel(kernel, true, seed);
    REQUIRE(!report.hazards.empty());
    for (const fa::simt::Hazard& hazard : report.hazards) {
      CHECK(hazard.kind == HazardKind::kBarrierDivergence);
      CHECK(hazard.where.line > 0);
    }
    CHECK(run_kernel(kernel, false, seed).hazards.empty());
  }
}

void one_warp_only(bool broken) {
  if (!broken || thread_index() < 32) block_sync();
}

void one_warp_returns_early(bool broken) {
  block_sync();
  if (broken && thread_index() >= 96) return;
  block_sync();
}

void one_lane_returns_early(bool broken) {
  if (broken && thread_index() == 77) return;
  block_sync();
}

void first_lane_returns_early(bool broken) {
  if (broken && thread_index() == 0) return;
  block_sync();
}

void half_a_warp(bool broken) {
  if (!broken || thread_index() % 32 < 16) block_sync();
}

void lanes_at_different_barriers(bool broken) {
  if (broken && thread_index() % 2 == 0) {
    block_sync();
  } else {
    block_sync();
  }
}

// With roles, a barrier matches by its number and not by the source line. Only the lanes of one
// warp must be at the same line.
void warps_at_different_lines(float* out) {
  if (thread_index() < 64) {
    store_shared<float>(dynamic_smem() + static_cast<uint32_t>(thread_index()) * 4, 1.0f);
    block_sync();
  } else {
    block_sync();
    store_global(out + thread_index(),
                 load_shared<float>(dynamic_smem() + 4u * (thread_index() - 64u)));
  }
}

TEST_CASE("warps may wait for each other at different lines") {
  Buffer<float> out(kThreads, "out");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Config config{.schedule_seed = seed};
    const Report report = fa::simt::run(
        config, [&] { launch(warps_at_different_lines, 1, kThreads, 1024, out.data()); });
    CHECK(report.hazards.empty());
    for (size_t i = 64; i < kThreads; ++i) CHECK(out[i] == 1.0f);
  }
}

// The break `divergent-barrier`: one warp executes an additional barrier in each iteration.
void extra_barrier_in_a_loop(bool broken) {
  for (int i = 0; i < 3; ++i) {
    block_sync();
    if (!broken || thread_index() < 32) block_sync();
  }
}

TEST_CASE("barriers that some threads never reach, or not the same one") {
  check_twins(one_warp_only);
  check_twins(one_warp_returns_early);
  check_twins(one_lane_returns_early);
  check_twins(first_lane_returns_early);
  check_twins(half_a_warp);
  check_twins(lanes_at_different_barriers);
  check_twins(extra_barrier_in_a_loop);
}

void different_shuffles(bool broken) {
  if (broken && thread_index() % 32 >= 16) {
    shfl_xor(1.0f, 1);
  } else {
    shfl_xor(1.0f, 1);
  }
}

void shuffle_against_barrier(bool broken) {
  if (broken && thread_index() % 32 >= 16) {
    block_sync();
  } else if (broken) {
    shfl_xor(1.0f, 1);
  } else {
    shfl_xor(1.0f, 1);
    block_sync();
  }
}

void half_a_warp_in_mma(bool broken) {
  uint32_t a[4] = {}, b[2] = {};
  float c[4] = {};
  if (broken && thread_index() % 32 < 16) {
    warp_sync();
  } else {
    mma_m16n8k16(a, b, c);
  }
}

// The same source line but another instruction, because kinds are compared as well as places.
void another_kind_on_the_same_line(bool broken) {
  uint32_t r1[1], r2[2];
  const uint32_t row = dynamic_smem() + static_cast<uint32_t>(thread_index() % 16) * 16;
  if (thread_index() < 16)
    for (uint32_t i = 0; i < 16; i += 4) store_shared<uint32_t>(row + i, 0);
  block_sync();
  if (broken && thread_index() % 2)
    ldmatrix_x1(r1, row, 7, "f");
  else
    ldmatrix_x2(r2, row, 7, "f");
}

void vote_against_shuffle(bool broken) {
  if (broken && thread_index() % 32 >= 16) {
    shfl_xor(1.0f, 1);
  } else {
    warp_any(true);
  }
}

// The purpose of a vote is that without it, lanes that differ in `grew` would diverge here.
void vote_inside_a_branch(bool broken) {
  const bool grew = thread_index() % 32 == 5;
  if (!broken || grew) warp_any(grew);
}

void two_votes(bool broken) {
  if (broken && thread_index() % 2 == 0) {
    warp_any(true);
  } else {
    warp_any(false);
  }
}

void return_before_vote(bool broken) {
  if (broken && thread_index() % 32 == 31) return;
  warp_any(true);
}

void return_before_shuffle(bool broken) {
  if (broken && thread_index() % 32 == 31) return;
  shfl_xor(1.0f, 16);
}

TEST_CASE("warp instructions that not all 32 lanes reach") {
  check_twins(different_shuffles);
  check_twins(shuffle_against_barrier);
  check_twins(half_a_warp_in_mma);
  check_twins(another_kind_on_the_same_line);
  check_twins(return_before_shuffle);
  check_twins(vote_against_shuffle);
  check_twins(vote_inside_a_branch);
  check_twins(two_votes);
  check_twins(return_before_vote);
}

TEST_CASE("the report names both places") {
  const Report report = run_kernel(shuffle_against_barrier, true, 0);
  REQUIRE(report.hazards.size() == 1);
  CHECK(report.hazards[0].text.find("block_sync") != std::string::npos);
  CHECK(report.hazards[0].text.find("shfl_xor") != std::string::npos);
  CHECK(report.hazards[0].count == 3);  // once per block
}

TEST_CASE("without hazard checks, divergence is an error instead of a hang") {
  Config config{.hazards = false};
  CHECK_THROWS_WITH_AS(fa::simt::run(config, [] { launch(half_a_warp, 1, kThreads, 0, true); }),
                       doctest::Contains("barrier_divergence"), std::runtime_error);
}

struct Guard {  // counts live objects
  explicit Guard(int* alive_) : alive(alive_) { ++*alive; }
  ~Guard() { --*alive; }
  int* alive;
};

void throws_in_the_middle(int* alive, int who) {
  const Guard guard(alive);
  block_sync();
  const Guard second(alive);
  shfl_xor(1.0f, 1);
  if (thread_index() == who) throw std::logic_error("TODO(ex1): copy the tile");
  block_sync();
}

TEST_CASE("an exception in a kernel comes out of launch, and all threads are unwound") {
  for (int who : {0, 31, 64, 127}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      int alive = 0;
      Config config{.schedule_seed = seed, .threads = 1};
      CHECK_THROWS_WITH_AS(
          fa::simt::run(config, [&] { launch(throws_in_the_middle, 2, kThreads, 0, &alive, who); }),
          "TODO(ex1): copy the tile", std::logic_error);
      CHECK(alive == 0);
    }
  }
  CHECK(run_kernel(one_warp_only, false, 0).hazards.empty());  // the emulator still works
}

void counts_guards(int* alive, bool broken) {
  const Guard guard(alive);
  if (!broken || thread_index() < 40) block_sync();
}

TEST_CASE("threads are unwound after divergence too") {
  int alive = 0;
  Config config{.threads = 1};
  const Report report =
      fa::simt::run(config, [&] { launch(counts_guards, 2, kThreads, 0, &alive, true); });
  CHECK(!report.hazards.empty());
  CHECK(alive == 0);
}

void bad_store(float* out) { store_global(out + 1, 1.0f); }

TEST_CASE("a launch outside a run reports hazards by throwing") {
  Buffer<float> out(1, "out");
  CHECK_THROWS_WITH_AS(launch(bad_store, 1, 1, 0, out.data()), doctest::Contains("out_of_bounds"),
                       std::runtime_error);
}

void shuffles(bool) { shfl_xor(1.0f, 1); }

TEST_CASE("warp instructions in a block that is not whole warps are refused") {
  CHECK_THROWS_WITH_AS(launch(shuffles, 1, 40, 0, false), doctest::Contains("this warp has 8"),
                       std::runtime_error);
  CHECK_NOTHROW(launch(one_warp_only, 1, 40, 0, false));
}

TEST_CASE("device functions outside a kernel") {
  CHECK_THROWS_AS(thread_index(), std::logic_error);
}

}  // namespace
