// Hazards of wgmma, such as registers in flight, operands that are overwritten, invalid
// descriptors.

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::bf16;
using fa::simt::Buffer;
using fa::simt::check_twins;
using fa::simt::Config;
using fa::simt::Report;

constexpr int kThreads = 128;
constexpr uint32_t kSmem = 48 * 1024;

using Kernel = void (*)(float* out, bool broken);
Report run_kernel(Kernel kernel, const Config& config, bool broken, int threads = kThreads) {
  Buffer<float> out(1024, "out");
  return fa::simt::run(config, [&] { launch(kernel, 1, threads, kSmem, out.data(), broken); });
}
std::string twins(Kernel kernel, const std::string& expected, int threads = kThreads) {
  return check_twins([=](const Config& config,
                         bool broken) { return run_kernel(kernel, config, broken, threads); },
                     expected);
}

// Two K-major tiles of 64 rows and 64 columns that contain ones, written by ordinary stores.
constexpr uint32_t kTile = 8192;
uint64_t tile(int i, int step = 0) {
  return advance_descriptor(wgmma_descriptor(dynamic_smem() + static_cast<uint32_t>(i) * kTile, 16,
                                             1024, Swizzle::bytes_128),
                            static_cast<uint32_t>(step) * 32);
}
void make_tiles(int tiles = 2, bool fence = true) {
  const auto words = static_cast<uint32_t>(tiles) * kTile / 4;
  for (uint32_t i = static_cast<uint32_t>(thread_index()); i < words;
       i += static_cast<uint32_t>(block_size().x)) {
    store_shared<uint32_t>(dynamic_smem() + i * 4, 0x3f80'3f80);
  }
  if (fence) fence_proxy_async();
  block_sync();
}

// Issues a product of the two tiles as a commit group.
void issue(float (&d)[8][4], bool accumulate = false) {
  wgmma<bf16>(d, tile(0), tile(1), accumulate);
  wgmma_commit();
}
void fence_and_issue(float (&d)[8][4]) {
  wgmma_fence();
  issue(d);
}

void accumulator_read_early(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  fence_and_issue(d);
  if (broken) d[1][2] *= 2.0f;
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[1][2]);
}

void waits_for_too_few(float* out, bool broken) {
  make_tiles();
  float s[8][4], o[8][4];
  fence_and_issue(s);
  issue(o);
  broken ? wgmma_wait<2>(s) : wgmma_wait<1>(s);
  for (auto& column : s) column[0] += 1.0f;
  wgmma_wait<0>(o);
  store_global(out + thread_index(), s[3][0] + o[0][0]);
}

// P, in registers, is overwritten while the wgmma reads it.
void operand_overwritten(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  uint32_t p[4] = {1, 2, 3, 4};
  wgmma_fence();
  wgmma<bf16, Major::mn>(d, p, tile(0), false);
  wgmma_commit();
  if (!broken) wgmma_wait<0>(d);
  p[3] = 0x3f80'3f80;
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0] + static_cast<float>(p[3]));
}

void no_fence_at_first(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  if (!broken) wgmma_fence();
  issue(d);
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

// The accumulator is scaled between two products.
void no_fence_behind_a_wait(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  wgmma_fence();
  for (int i = 0; i < 2; ++i) {
    if (i == 1 && !broken) wgmma_fence();
    wgmma<bf16>(d, tile(0), tile(1), i > 0);
    wgmma<bf16>(d, tile(0, 1), tile(1, 1), true);  // the same registers, so no fence is needed
    wgmma_commit();
    wgmma_wait<0>(d);
    for (auto& column : d)
      for (float& x : column) x *= 0.5f;
  }
  store_global(out + thread_index(), d[0][0]);
}

// The wait at the end covers both, but it names only one of them.
void one_wait_for_two(float* out, bool broken) {
  make_tiles();
  float s[8][4], o[8][4];
  fence_and_issue(s);
  issue(o);
  broken ? wgmma_wait<0>(o) : wgmma_wait<0>(s, o);
  store_global(out + thread_index(), s[3][0] + o[0][0]);
}

void never_waited_for(float*, bool broken) {
  make_tiles();
  float d[8][4];
  fence_and_issue(d);
  if (!broken) wgmma_wait<0>(d);
}

// Accumulators are read before their wait in five ways: stored, used in arithmetic, compared by
// max, rounded, or passed to another lane.
template <int WAY>
void accumulators_read_early(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  fence_and_issue(d);
  if (!broken) wgmma_wait<0>(d);
  float value = 0;
  if (WAY == 0) store_global(out + 128 + thread_index(), d[3][1]);
  if (WAY == 1) value = d[3][1] * 2.0f + 1.0f;
  if (WAY == 2) value = max(1.0f, d[3][1]);
  if (WAY == 3) value = static_cast<float>(pack_bf16x2(exp2(d[3][1] - 16.0f), 0.0f));
  if (WAY == 4) value = shfl_xor(d[3][1], 1);
  if (broken) wgmma_wait<0>(d);
  store_global(out + thread_index(), value);
}

TEST_CASE("registers_in_flight: accumulators that are read") {
  const std::string text = twins(accumulators_read_early<0>, "registers_in_flight");
  CHECK(text.find("reads accumulators of this wgmma before its wgmma_wait: it uses them at ") !=
        std::string::npos);
  for (const Kernel kernel : {accumulators_read_early<1>, accumulators_read_early<2>,
                              accumulators_read_early<3>, accumulators_read_early<4>})
    twins(kernel, "registers_in_flight");
}

TEST_CASE("registers_in_flight") {
  const std::string text = twins(accumulator_read_early, "registers_in_flight");
  CHECK(text.find("writes accumulator 6 before its wgmma_wait") != std::string::npos);
  twins(waits_for_too_few, "registers_in_flight");
  twins(operand_overwritten, "registers_in_flight");
  CHECK(twins(no_fence_at_first, "registers_in_flight").find("without a wgmma_fence before it") !=
        std::string::npos);
  CHECK(twins(no_fence_behind_a_wait, "registers_in_flight")
            .find("without a wgmma_fence since its last wgmma_wait") != std::string::npos);
  CHECK(twins(one_wait_for_two, "registers_in_flight").find("which does not name them") !=
        std::string::npos);
  twins(never_waited_for, "registers_in_flight");
}

TEST_CASE("what is read too early is NaN; what is waited for is right") {
  Buffer<float> out(1024, "out");
  const Report report = fa::simt::run({}, [&] {
    launch(
        +[](float* result) {
          make_tiles();
          float d[8][4] = {};
          uint32_t p[4] = {0x3f80'3f80, 0x3f80'3f80, 0x3f80'3f80, 0x3f80'3f80};
          wgmma_fence();
          wgmma<bf16>(d, p, tile(1), true);
          wgmma<bf16>(d, tile(0), tile(1), true);
          wgmma_commit();
          store_global(result + thread_index(), d[7][3]);
          wgmma_wait<0>(d);
          store_global(result + 128 + thread_index(), d[7][3]);
          store_global(result + 256 + thread_index(), static_cast<float>(p[2] == 0x3f80'3f80));
        },
        1, kThreads, kSmem, out.data());
  });
  CHECK(kinds(report) == "registers_in_flight");
  for (size_t i = 0; i < 128; ++i) {
    CHECK(!(out[i] == out[i]));
    CHECK(out[128 + i] == 32.0f);
    CHECK(out[256 + i] == 1.0f);
  }
}

// Warps of a warpgroup wait at different times, but a commit group completes as a whole.
void overlapped(float* out, bool) {
  make_tiles();
  float s[8][4], o[8][4] = {};
  for (int tile_number = 0; tile_number < 3; ++tile_number) {
    fence_and_issue(s);
    issue(o, true);
    wgmma_wait<1>(s);
    for (auto& column : s) column[0] *= 2.0f;
    wgmma_wait<0>(o);
    for (auto& column : o) column[1] += s[0][0];
  }
  store_global(out + thread_index(), o[2][1]);
}

TEST_CASE("two groups in flight, under 100 schedules") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Config config{.schedule_seed = seed};
    Buffer<float> out(1024, "out");
    const Report report = fa::simt::run(
        config, [&] { launch(overlapped, 1, 2 * kThreads, kSmem, out.data(), false); });
    CHECK(texts(report) == "");
    for (size_t i = 0; i < 256; ++i) CHECK(out[i] == 3 * (16.0f + 32.0f));
  }
}

TEST_CASE("the event log says how many groups a wgmma_wait leaves in flight") {
  Config config{.events = true};
  Buffer<float> out(1024, "out");
  const Report report =
      fa::simt::run(config, [&] { launch(overlapped, 1, kThreads, kSmem, out.data(), false); });
  for (int warp = 0; warp < 4; ++warp) {
    std::vector<int> pending;
    for (const fa::simt::Event& event : report.events) {
      if (event.warp == warp && event.kind == fa::simt::EventKind::kWait) {
        pending.push_back(event.pending_groups);
      }
    }
    CHECK(pending == std::vector<int>{1, 0, 1, 0, 1, 0});
  }
}

void stores_without_proxy_fence(float* out, bool broken) {
  make_tiles(2, !broken);
  float d[8][4];
  fence_and_issue(d);
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

// A wgmma is in flight, and block_sync does not wait for it.
void overwritten_while_multiplied(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  fence_and_issue(d);
  if (!broken) wgmma_wait<0>(d);
  block_sync();
  store_shared<uint32_t>(dynamic_smem() + 4u * static_cast<uint32_t>(thread_index()), 0);
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

void written_by_others(float* out, bool broken) {
  make_tiles();
  if (thread_index() == 127) {
    store_shared<uint32_t>(dynamic_smem() + kTile, 0);
    fence_proxy_async();
  }
  if (!broken) block_sync();
  float d[8][4];
  fence_and_issue(d);
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

TEST_CASE("operands that another thread is writing") {
  twins(stores_without_proxy_fence, "missing_proxy_fence");
  twins(overwritten_while_multiplied, "overwrite_while_read");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Config config{.schedule_seed = seed};
    CHECK(texts(run_kernel(written_by_others, config, false)) == "");
    CHECK(kinds(run_kernel(written_by_others, config, true)).find("read_before_barrier") !=
          std::string::npos);
  }
}

void multiply(float* out, uint64_t a, uint64_t b) {
  make_tiles();
  float d[8][4];
  wgmma_fence();
  wgmma<bf16>(d, a, b, false);
  wgmma_commit();
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

void leaves_shared_memory(float* out, bool broken) {
  make_tiles(kSmem / kTile);
  multiply(out, tile(0), broken ? tile(0) + (kSmem - 1024) / 16 : tile(1));
}
void reserved_bits(float* out, bool broken) {
  multiply(out, tile(0) | (broken ? uint64_t{1} << 47 : 0), tile(1));
}
void a_base_offset(float* out, bool broken) {
  multiply(out, tile(0) | (broken ? uint64_t{1} << 49 : 0), tile(1));
}
void in_the_middle_of_lines(float* out, bool broken) {
  make_tiles(3);
  multiply(out, broken ? advance_descriptor(tile(0), 3 * 128) : tile(0), tile(1));
}
void warps_disagree(float* out, bool broken) {
  multiply(out, tile(0), broken && thread_index() >= 64 ? tile(0) : tile(1));
}

TEST_CASE("bad_descriptor") {
  const std::string text = twins(leaves_shared_memory, "bad_descriptor");
  CHECK(text.find("gives a descriptor for B that leads to byte 49152 of dynamic shared memory, "
                  "which has 49152") != std::string::npos);
  for (const Kernel kernel : {reserved_bits, a_base_offset, in_the_middle_of_lines, warps_disagree})
    twins(kernel, "bad_descriptor");
}

// K's tile has 32 rows, so n = 64 extends into V's tile.
void leaves_its_tile(const TensorMap K, const TensorMap V, float* out, bool broken) {
  const uint32_t landed = dynamic_smem() + kSmem - 8;
  if (thread_index() == 0) {
    mbarrier_init(landed, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(landed, kTile);
    tma_load_2d(dynamic_smem(), K, 0, 0, landed);
    tma_load_2d(dynamic_smem() + kTile / 2, V, 0, 0, landed);
  }
  block_sync();
  mbarrier_wait(landed, 0);
  float d[8][4];
  uint32_t a[4] = {};
  wgmma_fence();
  if (broken) {
    wgmma<bf16>(d, a, tile(0), false);
  } else {
    wgmma<bf16>(reinterpret_cast<float(&)[4][4]>(d), a, tile(0), false);
  }
  wgmma_commit();
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

TEST_CASE("a descriptor that leads into another tensor's tile") {
  Buffer<bf16> K(32 * 64, "K"), V(32 * 64, "V");
  Buffer<float> out(1024, "out");
  const auto map = [](const Buffer<bf16>& matrix) {
    return make_tensor_map(matrix.data(), {64, 32}, {128}, {64, 32}, Swizzle::bytes_128);
  };
  const std::string text = check_twins(
      [&](const Config& config, bool broken) {
        return fa::simt::run(config, [&] {
          launch(leaves_its_tile, 1, kThreads, kSmem, map(K), map(V), out.data(), broken);
        });
      },
      "bad_descriptor");
  CHECK(text.find("leads from a tile of K[0] into one of V[0], at byte 4096") != std::string::npos);
}

void half_of_a_warpgroup(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  wgmma_fence();
  if (!broken || thread_index() < 64) {
    wgmma<bf16>(d, tile(0), tile(1), false);
  } else {
    wgmma<bf16>(d, tile(1), tile(1), false);
  }
  wgmma_commit();
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

TEST_CASE("a warpgroup calls one wgmma together") {
  twins(half_of_a_warpgroup, "barrier_divergence");
  CHECK_THROWS_WITH_AS(run_kernel(half_of_a_warpgroup, {}, false, 96),
                       doctest::Contains("multiple of 128"), std::runtime_error);
}

}  // namespace
