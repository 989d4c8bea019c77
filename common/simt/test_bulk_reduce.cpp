// Results, counters and hazards of stmatrix and bulk adds.

#include <algorithm>

#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::check_twins;
using fa::simt::Config;
using fa::simt::kinds;
using fa::simt::Report;
using fa::simt::texts;

constexpr int kThreads = 64;
constexpr uint32_t kBytes = 1024, kSmem = 4096;
constexpr int kFloats = kBytes / 4;

uint32_t number(int thread, int i) {
  return dynamic_smem() + 4u * static_cast<uint32_t>(thread + i * kThreads);
}

TEST_CASE("stmatrix stores what ldmatrix loads, one wavefront for each 8x8 matrix") {
  static uint32_t got[32][4];
  const Report report = fa::simt::run({}, [&] {
    launch(
        +[] {
          const uint32_t lane = static_cast<uint32_t>(thread_index());
          uint32_t r[4], back[4];
          for (uint32_t i = 0; i < 4; ++i) r[i] = lane * 4 + i;
          stmatrix_x4(dynamic_smem() + lane * 16, r);
          warp_sync();
          ldmatrix_x4(back, dynamic_smem() + lane * 16);
          for (uint32_t i = 0; i < 4; ++i) {
            got[lane][i] = back[i];
            // Row lane / 4 of matrix i holds two elements, starting at column 2 (lane % 4).
            const uint32_t word = load_shared<uint32_t>(dynamic_smem() + i * 128 + lane * 4);
            if (word != r[i]) got[lane][i] = 0xffffffff;
          }
        },
        1, 32, kSmem);
  });
  CHECK(texts(report) == "");
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < 4; ++i) CHECK(got[lane][i] == lane * 4 + i);
  CHECK(report.counters.shared_store_wavefronts == 4);
  CHECK(report.counters.shared_store_wavefronts_ideal == 4);
}

TEST_CASE("stmatrix: rows 128 bytes apart meet in the same banks, unless they are swizzled") {
  for (const bool swizzle : {false, true}) {
    const Report report = fa::simt::run({}, [&] {
      launch(
          +[](bool swizzle) {
            const uint32_t lane = static_cast<uint32_t>(thread_index());
            const uint32_t chunk = swizzle ? lane / 8 ^ lane % 8 : lane / 8;
            const uint32_t r[4] = {};
            stmatrix_x4(dynamic_smem() + lane % 8 * 128 + chunk * 16, r);
          },
          1, 32, kSmem, swizzle);
    });
    CHECK(texts(report) == "");
    CHECK(report.counters.shared_store_wavefronts == (swizzle ? 4 : 32));
  }
}

void store_tile(float value) {
  for (int i = 0; i < 4; ++i) store_shared<float>(number(thread_index(), i), value);
}
void make_tile() {
  store_tile(1.0f);
  fence_proxy_async();
  block_sync();
}
void issue_add(float* sums, uint32_t bytes = kBytes, uint32_t offset = 0) {
  bulk_reduce_add(sums, dynamic_smem() + offset, bytes);
  tma_store_commit();
}
void add_and_wait(float* sums, uint32_t bytes = kBytes, uint32_t offset = 0) {
  if (thread_index() > 0) return;
  issue_add(sums, bytes, offset);
  tma_store_wait<0>();
}

// All blocks add their tile to the same elements.
void adds(float* sums) {
  for (int i = 0; i < 4; ++i)
    store_shared<float>(number(thread_index(), i),
                        static_cast<float>((thread_index() + i * kThreads) * (block_index() + 1)));
  fence_proxy_async();
  block_sync();
  add_and_wait(sums);
}

TEST_CASE("bulk_reduce_add: every block's numbers are in the sum") {
  Buffer<float> sums(kFloats, "sums");
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::fill_n(sums.data(), kFloats, 1.0f);
    Config config{.schedule_seed = seed};
    const Report report =
        fa::simt::run(config, [&] { launch(adds, 4, kThreads, kSmem, sums.data()); });
    CHECK(texts(report) == "");
    CHECK(report.counters.tma_instructions == 4);
    CHECK(report.counters.tma_bytes == 4 * kBytes);
    for (int i = 0; i < kFloats; ++i) CHECK(sums.data()[i] == static_cast<float>(1 + i * 10));
  }
}

// Runs each kernel intact and with one mistake.
using Kernel = void (*)(float*, bool);
void twins(Kernel kernel, const char* hazard, int blocks = 1) {
  check_twins(
      [&](const Config& config, bool broken) {
        Buffer<float> sums(kFloats, "sums");
        std::fill_n(sums.data(), kFloats, 0.0f);
        return fa::simt::run(config,
                             [&] { launch(kernel, blocks, kThreads, kSmem, sums.data(), broken); });
      },
      hazard);
}

void no_fence(float* sums, bool broken) {
  store_tile(1.0f);
  if (!broken) fence_proxy_async();
  block_sync();
  add_and_wait(sums);
}

// The tile is overwritten before the copy engine has read it.
void next_tile_too_early(float* sums, bool broken) {
  make_tile();
  if (thread_index() == 0) {
    issue_add(sums);
    if (!broken) tma_store_wait_read<0>();
  }
  block_sync();
  store_tile(2.0f);
  if (thread_index() == 0) tma_store_wait<0>();
}

// Bulk adds do not race with each other, but with a plain store of another block.
void clears_in_the_same_launch(float* sums, bool broken) {
  if (broken && block_index() == 0 && thread_index() == 0) {
    store_global(sums, 0.0f);
    fence_proxy_async_global();
  }
  make_tile();
  add_and_wait(sums);
}

// An ordinary store before the bulk add, to the same element.
void no_global_fence(float* sums, bool broken) {
  store_tile(1.0f);
  fence_proxy_async();
  if (thread_index() == 5) {
    store_global(sums + 7, 3.0f);
    if (!broken) fence_proxy_async_global();
  }
  block_sync();
  add_and_wait(sums);
}

// The sum is read after a wait that covers the reads of shared memory only.
void sum_read_too_early(float* sums, bool broken) {
  make_tile();
  if (thread_index() == 0) {
    issue_add(sums);
    broken ? tma_store_wait_read<0>() : tma_store_wait<0>();
  }
  block_sync();
  if (thread_index() == 40) store_shared<float>(number(0, 0), load_global(sums + 9));
}

// The older of two groups has been waited for, the newer one not.
void newer_group(float* sums, bool broken) {
  make_tile();
  if (thread_index() > 0) return;
  for (int half = 0; half < 2; ++half) issue_add(sums + half * kFloats / 2, kBytes / 2);
  tma_store_wait_read<0>();
  tma_store_wait<1>();
  store_global(sums + (broken ? kFloats / 2 : 0), 0.0f);
  tma_store_wait<0>();
}

// Another block reads the sum after a flag, which the adding thread sets without a wait.
template <bool kReadOnly>
void flag_too_early(float* sums, int* flag, bool broken) {
  if (block_index() == 1) {
    if (thread_index() == 0) {
      while (load_acquire(flag) == 0) {
      }
      store_shared<float>(number(0, 0), load_global(sums + 3));
    }
    return;
  }
  make_tile();
  if (thread_index() > 0) return;
  issue_add(sums);
  if (!broken) tma_store_wait<0>();
  if (broken && kReadOnly) tma_store_wait_read<0>();
  store_release(flag, 1);
  tma_store_wait<0>();
}

void stmatrix_without_fence(float* sums, bool broken) {
  if (thread_index() < 32) {
    const uint32_t r[4] = {};
    for (uint32_t i = 0; i < 2; ++i)
      stmatrix_x4(dynamic_smem() + i * 512 + static_cast<uint32_t>(thread_index()) * 16, r);
    if (!broken) fence_proxy_async();
  }
  block_sync();
  add_and_wait(sums);
}

void outside(float* sums, bool broken) {
  make_tile();
  add_and_wait(sums + (broken ? 4 : 0));
}

void misaligned(float* sums, bool broken) {
  make_tile();
  add_and_wait(sums, kBytes - 16, broken ? 8 : 0);
}

TEST_CASE("a bulk add: its hazards, each with a twin that has none") {
  twins(no_fence, "missing_proxy_fence");
  twins(next_tile_too_early, "overwrite_while_read");
  twins(clears_in_the_same_launch, "global_race", 2);
  twins(no_global_fence, "missing_proxy_fence");
  twins(sum_read_too_early, "global_race");
  twins(newer_group, "global_race");
  for (const auto kernel : {flag_too_early<false>, flag_too_early<true>}) {
    check_twins(
        [&](const Config& config, bool broken) {
          Buffer<float> sums(kFloats, "sums");
          Buffer<int> flag(1, "flag");
          return fa::simt::run(config, [&] {
            launch(kernel, 2, kThreads, kSmem, sums.data(), flag.data(), broken);
          });
        },
        "global_race");
  }
  twins(stmatrix_without_fence, "missing_proxy_fence");
  twins(outside, "out_of_bounds");
  twins(misaligned, "misaligned");
}

}  // namespace
