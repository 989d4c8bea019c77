// Counters of kernels that can be counted by hand, and events.

#include <doctest/doctest.h>

#include <stdexcept>

#include "common/simt/block.hpp"
#include "common/simt/device.hpp"
#include "common/simt/simt.hpp"
#include "common/simt/traffic.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::Config;
using fa::simt::Counters;
using fa::simt::EventKind;
using fa::simt::Report;

// Row j of a matrix is at `row_bytes` * j, and its 16-byte chunk is XORed with j / rows_per_line.
int column_wavefronts(uint32_t row_bytes, bool swizzled) {
  uint32_t addresses[8];
  for (uint32_t j = 0; j < 8; ++j) {
    const uint32_t line = j * row_bytes / 128;
    addresses[j] = j * row_bytes ^ (swizzled ? line % 8 * 16 : 0);
  }
  return fa::simt::matrix_wavefronts(addresses);
}

TEST_CASE("wavefronts of one 8x8 matrix") {
  CHECK(column_wavefronts(16, false) == 1);  // 128 contiguous bytes
  CHECK(column_wavefronts(32, false) == 2);
  CHECK(column_wavefronts(64, false) == 4);
  CHECK(column_wavefronts(128, false) == 8);
  CHECK(column_wavefronts(256, false) == 8);
  CHECK(column_wavefronts(256 + 16, false) == 1);  // padded rows
  CHECK(column_wavefronts(128, true) == 1);        // swizzled rows
  CHECK(column_wavefronts(0, false) == 1);         // all lanes read the same row, a broadcast
}

TEST_CASE("wavefronts of plain accesses") {
  uint32_t addresses[32];
  const auto count = [&](int bytes, auto address_of) {
    for (uint32_t lane = 0; lane < 32; ++lane) addresses[lane] = address_of(lane);
    return fa::simt::access_wavefronts(addresses, 0xffffffffu, bytes, true);
  };
  CHECK(count(4, [](uint32_t l) { return 4 * l; }) == 1);
  CHECK(count(4, [](uint32_t) { return 64u; }) == 1);         // broadcast
  CHECK(count(4, [](uint32_t l) { return 128 * l; }) == 32);  // a column
  CHECK(count(4, [](uint32_t l) { return 132 * l; }) == 1);   // a padded column
  CHECK(count(4, [](uint32_t l) { return 8 * l; }) == 2);     // stride two
  CHECK(count(2, [](uint32_t l) { return 2 * l; }) == 1);     // two lanes share a word
  CHECK(count(8, [](uint32_t l) { return 8 * l; }) == 2);
  CHECK(count(16, [](uint32_t l) { return 16 * l; }) == 4);
  CHECK(count(16, [](uint32_t l) { return 128 * l; }) == 32);
  // Each quarter of the warp uses different banks but still takes its own passes.
  CHECK(count(16, [](uint32_t l) { return 128 * l + l / 8 * 16; }) == 32);
}

constexpr uint32_t kSmem = 32 * 128;

// One warp copies 32 chunks to rows of 128 bytes and reads them as a column of matrices.
void copy_and_read(const float* in, float* out, uint32_t stride) {
  const auto lane = static_cast<uint32_t>(thread_index());
  cp_async_16(dynamic_smem() + lane * stride, in + 4 * lane, 16);
  cp_async_commit();
  cp_async_wait<0>();
  block_sync();
  uint32_t r[4];
  ldmatrix_x4(r, dynamic_smem() + lane * stride);
  const float x = shfl_xor(static_cast<float>(r[0]), 1);
  store_global(out + 64 * block_index() + 2 * lane, x);
}

Counters counters_of(const Config& config, uint32_t stride, int grid) {
  Buffer<float> in(128, "in"), out(64 * static_cast<size_t>(grid), "out");
  const Report report = fa::simt::run(config, [&] {
    launch(copy_and_read, grid, 32, kSmem, static_cast<const float*>(in.data()), out.data(),
           stride);
  });
  CHECK(report.hazards.empty());
  return report.counters;
}

TEST_CASE("counters of a small kernel") {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Config config{.schedule_seed = seed, .threads = 1};
    const Counters column = counters_of(config, 128, 1);
    CHECK(column.ldmatrix_instructions == 1);
    CHECK(column.mma_instructions == 0);
    CHECK(column.cp_async_instructions == 1);
    CHECK(column.shuffle_instructions == 1);
    CHECK(column.barriers == 1);
    CHECK(column.shared_load_wavefronts == 32);  // four matrices, 8-way conflict each
    CHECK(column.shared_load_wavefronts_ideal == 4);
    CHECK(column.shared_store_wavefronts == 32);
    CHECK(column.shared_store_wavefronts_ideal == 4);
    CHECK(column.global_load_sectors == 16);  // 512 contiguous bytes
    CHECK(column.global_load_sectors_ideal == 16);
    CHECK(column.global_store_sectors == 8);  // every other float, so half of each sector
    CHECK(column.global_store_sectors_ideal == 4);
    CHECK(column.shared_bytes_per_block == kSmem);
    CHECK(is_estimate(column, "shared_store_wavefronts"));  // a bank conflict of cp.async:
                                                            // unconfirmed
    CHECK(!is_estimate(column, "shared_load_wavefronts"));
    CHECK(!is_estimate(column, "global_load_sectors"));

    const Counters dense = counters_of(config, 16, 3);
    CHECK(dense.shared_load_wavefronts == 3 * 4);
    CHECK(dense.shared_store_wavefronts == 3 * 4);
    CHECK(!is_estimate(dense, "shared_store_wavefronts"));
    CHECK(dense.global_load_sectors == 3 * 16);
    CHECK(dense.shared_bytes_per_block == kSmem);
  }
}

// In one warp, the first `real` lanes copy `bytes` each, and the others fill with zeros.
void copy_ragged(const float* in, double* out, int real, int bytes) {
  const int lane = thread_index();
  cp_async_16(dynamic_smem() + 16u * static_cast<uint32_t>(lane), in + 4 * lane,
              lane < real ? bytes : 0);
  cp_async_commit();
  cp_async_wait<0>();
  if (out != nullptr) store_global(out + lane, 1.0);
}

TEST_CASE("what no hardware has confirmed is an estimate") {
  Buffer<float> in(128, "in");
  Buffer<double> out(32, "out");
  const auto counters = [&](int real, int bytes, double* stores) {
    return fa::simt::run(Config{},
                         [&] {
                           launch(copy_ragged, 1, 32, kSmem, static_cast<const float*>(in.data()),
                                  stores, real, bytes);
                         })
        .counters;
  };
  for (const int real : {0, 1, 31, 32}) {
    const Counters c = counters(real, 16, nullptr);
    CHECK(c.shared_store_wavefronts == 4);
    CHECK(is_estimate(c, "shared_store_wavefronts") == (real == 1 || real == 31));
    CHECK(!is_estimate(c, "global_load_sectors"));
    CHECK(c.global_load_sectors == (real + 1) / 2);
  }
  CHECK(is_estimate(counters(32, 8, nullptr), "global_load_sectors"));  // part of each 16 bytes
  CHECK(!is_estimate(counters(32, 16, nullptr), "global_store_sectors"));
  CHECK(!is_estimate(counters(32, 16, out.data()), "global_store_sectors"));  // 8 bytes per lane
}

// Lanes execute different instructions, and different numbers of them.
void divergent_stores(float* out) {
  const int lane = thread_index();
  if (lane < 8) {
    store_global(out + lane, 1.0f);
  } else {
    store_global(out + lane, 2.0f);
  }
  for (int i = 0; i <= lane / 16; ++i) store_global(out + lane, 3.0f);
}

TEST_CASE("lanes are put together to warp instructions by line and by turn") {
  Buffer<float> out(32, "out");
  const Report report = fa::simt::run({}, [&] { launch(divergent_stores, 1, 32, 0, out.data()); });
  // 1 sector, 3 sectors, then all four, then the upper half again.
  CHECK(report.counters.global_store_sectors == 1 + 3 + 4 + 2);
}

TEST_CASE("events tell what each warp did, in its order") {
  Buffer<float> in(128, "in"), out(128, "out");
  Config config{.events = true};
  const Report report = fa::simt::run(config, [&] {
    launch(copy_and_read, 2, 32, kSmem, static_cast<const float*>(in.data()), out.data(), 16u);
  });
  const EventKind expected[] = {EventKind::kCopyIssue, EventKind::kCommit,     EventKind::kWait,
                                EventKind::kLand,      EventKind::kBarrier,    EventKind::kLdmatrix,
                                EventKind::kShuffle,   EventKind::kStoreGlobal};
  REQUIRE(report.events.size() == std::size(expected));  // events of the first block only
  for (size_t i = 0; i < std::size(expected); ++i) CHECK(report.events[i].kind == expected[i]);
  const fa::simt::Event& copy = report.events[0];
  CHECK(copy.group == 0);
  CHECK(copy.bytes == 512);
  CHECK(copy.source == reinterpret_cast<uint64_t>(in.data()));
  CHECK(report.events[2].pending_groups == 0);
  CHECK(report.events[3].group == 0);
  CHECK(report.events[3].bytes == 512);
  CHECK(report.events[4].step == 3);  // the landing is part of the wait
  CHECK(report.events[4].where.line > 0);
}

// Lane 0 works alone while the others wait for it or have finished.
void a_lane_alone(const float* in, float* out, int loads, bool others_wait, size_t* kept) {
  float sum = 0;
  if (thread_index() == 0) {
    for (int i = 0; i < loads; ++i) sum += load_global(in + i % 128);
    const fa::simt::AccessCollector& accesses = fa::simt::current_thread().warp->accesses;
    *kept = accesses.size();
    store_global(out, sum);
  }
  if (others_wait) warp_sync();
}

TEST_CASE("what a lane does alone is counted at once, and not kept until the warp meets") {
  constexpr int kLoads = 100'000;
  Buffer<float> in(128, "in"), out(1, "out");
  for (const bool others_wait : {false, true}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      Config config{.schedule_seed = seed};
      size_t kept = 0;
      const Report report = fa::simt::run(config, [&] {
        launch(a_lane_alone, 1, 32, 0, static_cast<const float*>(in.data()), out.data(), kLoads,
               others_wait, &kept);
      });
      CHECK(report.counters.global_load_sectors == kLoads);
      CHECK(kept < 2000);
    }
  }
}

// The loads return the same value, but the thread does not only poll.
void the_same_value(float* out, int turns) {
  const int t = thread_index();
  float sum = 0;
  for (int i = 0; i < turns; ++i) {
    store_shared<float>(dynamic_smem() + 4 * t, 1.0f);
    block_sync();
    sum += load_shared<float>(dynamic_smem() + 4 * (63 - t));
    block_sync();
  }
  store_global(out + t, sum);
}

TEST_CASE("loads that bring the same value again are counted") {
  Buffer<float> out(64, "out");
  const Report report =
      fa::simt::run({}, [&] { launch(the_same_value, 1, 64, 256, out.data(), 500); });
  CHECK(report.hazards.empty());
  CHECK(report.counters.shared_load_wavefronts == 2 * 500);
  for (float x : out) CHECK(x == 500);
}

// A thread that waits for a flag polls a number of times that depends on timing. Only the first
// load and 64 repetitions are counted.
void waits_for_a_flag(int* flag) {
  if (block_index() == 0) {
    while (load_acquire(flag) == 0) {
    }
  } else {
    for (int i = 0; i < 1000; ++i) load_global(flag + 1 + i % 64);
    store_release(flag, 1);
  }
}

TEST_CASE("the looks of a thread that waits are not counted") {
  Buffer<int> flag(65, "flag");
  Config config;
  config.threads = 1;  // so that the waiting block runs first
  const Report report =
      fa::simt::run(config, [&] { launch(waits_for_a_flag, 2, 1, 0, flag.data()); });
  CHECK(report.counters.global_load_sectors == 1000 + 1 + 64);
}

void says_a_tile(bool row) {
  if (row) tile_row(0, 1);
  tile_visit(0, false);
}

TEST_CASE("a tile is visited in a row that its block has named") {
  const Report report = fa::simt::run({}, [] { launch(says_a_tile, 3, 32, 0, true); });
  CHECK(report.tiles.size() == 3);
  CHECK_THROWS_WITH_AS(launch(says_a_tile, 1, 32, 0, false), doctest::Contains("tile_row"),
                       std::logic_error);
}

TEST_CASE("putting lanes together takes time in proportion to their accesses") {
  fa::simt::AccessCollector collector;
  const fa::simt::Site load{"kernel.cpp", 1}, store{"kernel.cpp", 2};
  // One lane after another, as the emulator runs them. With a search through all earlier accesses,
  // this test took a quarter of an hour.
  constexpr int kTurns = 400'000;
  for (const int lane : {0, 31, 5}) {
    for (int turn = 0; turn < kTurns; ++turn) {
      collector.join(lane, fa::simt::Instruction::kLoadGlobal, load, 4);
      if (turn % 2 == 0) collector.join(lane, fa::simt::Instruction::kStoreGlobal, store, 4);
    }
  }
  CHECK(collector.size() == kTurns + kTurns / 2);
  collector.for_each([](const fa::simt::WarpAccess& access) {
    if (access.lanes != (1u << 0 | 1u << 31 | 1u << 5)) FAIL("a lane is missing");
  });
}

TEST_CASE("an access by one lane comes after the lane's earlier accesses, under every schedule") {
  fa::simt::AccessCollector collector;
  const auto join = [&](int lane, std::initializer_list<int> lines) {
    for (const int line : lines)
      collector.join(lane, fa::simt::Instruction::kLoadGlobal, {"kernel.cpp", line}, 4);
  };
  const auto order = [&] {
    std::string lines;
    collector.for_each(
        [&](const auto& access) { lines += std::to_string(access.site.line) + " "; });
    return lines;
  };
  join(1, {1, 5, 6});
  join(0, {1, 2, 2, 5, 6});
  join(2, {0, 1, 5, 6, 7});
  CHECK(order() == "0 1 2 2 5 6 7 ");
  collector.clear();
  join(0, {3, 2});
  CHECK(order() == "3 2 ");
}

}  // namespace
