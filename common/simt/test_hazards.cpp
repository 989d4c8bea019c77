// For each hazard, a kernel that has exactly this one, and a corrected twin that has none. Both run
// under 20 schedules and must give the same report under all of them.

#include <doctest/doctest.h>

#include <string>

#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::Config;
using fa::simt::HazardKind;
using fa::simt::Report;

constexpr int kThreads = 64;
constexpr uint32_t kSmem = kThreads * 16;

uint32_t chunk(int i) { return dynamic_smem() + static_cast<uint32_t>(i) * 16; }

// `in` and `out` have one 16-byte chunk per thread.
using Kernel = void (*)(const float* in, float* out, bool broken);

Report run_kernel(Kernel kernel, bool broken, uint64_t seed = 0) {
  Buffer<float> in(kThreads * 4, "in"), out(kThreads * 4, "out");
  Config config{.schedule_seed = seed, .events = true};
  return fa::simt::run(config, [&] {
    launch(kernel, 1, kThreads, kSmem, static_cast<const float*>(in.data()), out.data(), broken);
  });
}

TEST_CASE("a view that ends leaves the buffer behind it registered") {
  Buffer<float> parent(4, "parent");
  for (const size_t offset : {0, 1}) {  // at the parent's own address, and inside it
    const fa::simt::RegisteredBuffer view(parent.data() + offset, 8, "view", 4);
    CHECK(fa::simt::describe_address(parent.data() + 3) == "parent[3]");
  }
  CHECK(fa::simt::describe_address(parent.data() + 3) == "parent[3]");
  { const fa::simt::RegisteredBuffer all(parent.data(), parent.bytes(), "all", 4); }
  CHECK(fa::simt::describe_address(parent.data() + 3) == "parent[3]");
}

void check_twins(std::initializer_list<Kernel> kernels, HazardKind expected) {
  for (const Kernel kernel : kernels)
    fa::simt::check_twins(
        [&](const Config& config, bool broken) {
          Report report = run_kernel(kernel, broken, config.schedule_seed);
          for (const fa::simt::Hazard& hazard : report.hazards)
            CHECK(std::string(hazard.where.file) == "common/simt/test_hazards.cpp");
          return report;
        },
        hazard_name(expected));
}

void copy_chunk(const float* in) {
  cp_async_16(chunk(thread_index()), in + 4 * thread_index(), 16);
  cp_async_commit();
}
void read_chunk(float* out, int i) {
  store_global(out + thread_index(), load_shared<float>(chunk(i)));
}
void fill_chunk(int i) {
  for (uint32_t offset = 0; offset < 16; offset += 4) store_shared<uint32_t>(chunk(i) + offset, 0);
}
// Reads a matrix for each of N groups of 8 lanes.
template <int N>
void read_rows(float* out, uint32_t row) {
  uint32_t r[N];
  if constexpr (N == 1)
    ldmatrix_x1(r, row);
  else
    ldmatrix_x4(r, row);
  store_global(out + thread_index(), static_cast<float>(r[0]));
}

void missing_wait(const float* in, float* out, bool broken) {
  const int t = thread_index();
  copy_chunk(in);
  if (!broken) cp_async_wait<0>();
  block_sync();
  read_chunk(out, kThreads - 1 - t);
}

// The wait comes after the read. Another group is in flight, so the wait must count groups.
void wait_for_too_few(const float* in, float* out, bool broken) {
  const int t = thread_index();
  copy_chunk(in);
  cp_async_commit();  // an empty group
  broken ? cp_async_wait<2>() : cp_async_wait<1>();
  block_sync();
  read_chunk(out, (t + 32) % kThreads);
  cp_async_wait<0>();
}

void own_bytes_in_flight(const float* in, float* out, bool broken) {
  const int t = thread_index();
  copy_chunk(in);
  if (!broken) cp_async_wait<0>();
  read_chunk(out, t);  // its own bytes, so no barrier is needed
}

TEST_CASE("read_before_wait") {
  check_twins({missing_wait, wait_for_too_few, own_bytes_in_flight}, HazardKind::kReadBeforeWait);
}

void missing_barrier(const float* in, float* out, bool broken) {
  const int t = thread_index();
  cp_async_16(chunk(t), in + 4 * t, 16);
  cp_async_commit();
  cp_async_wait<0>();
  if (!broken) block_sync();
  store_global(out + t, load_shared<float>(chunk(kThreads - 1 - t)));
}

void store_without_barrier(const float* in, float* out, bool broken) {
  const int t = thread_index();
  store_shared<float>(chunk(t), load_global(in + t));
  if (!broken) block_sync();
  read_chunk(out, kThreads - 1 - t);
}

// Copied in an earlier epoch and waited for in this one, so the barrier has to come after the wait.
void barrier_before_wait(const float* in, float* out, bool broken) {
  const int t = thread_index();
  copy_chunk(in);
  block_sync();
  cp_async_wait<0>();
  if (!broken) block_sync();
  read_chunk(out, kThreads - 1 - t);
}

// ldmatrix waits for all lanes but orders no memory accesses, so their stores need a warp_sync.
void ldmatrix_without_warp_sync(const float*, float* out, bool broken) {
  const int t = thread_index();
  fill_chunk(t);
  if (!broken) warp_sync();
  read_rows<4>(out, chunk(t));
}

void copy_without_warp_sync(const float* in, float* out, bool broken) {
  const int t = thread_index();
  copy_chunk(in);
  cp_async_wait<0>();
  if (!broken) warp_sync();
  read_rows<4>(out, chunk(t));
}

void shuffle_is_no_barrier(const float*, float* out, bool broken) {
  const int t = thread_index();
  store_shared<float>(chunk(t), 1.0f);
  shfl_xor(1.0f, 1);
  if (!broken) warp_sync();
  read_chunk(out, t ^ 1);
}

// This includes the lane that stored the bytes, because the other 31 lanes receive them as well.
void one_lane_stores_for_ldmatrix(const float*, float* out, bool broken) {
  const int t = thread_index();
  if (t % 32 == 0) {
    for (uint32_t i = 0; i < 8 * 16; i += 4) store_shared<uint32_t>(chunk(t) + i, 0);
  }
  if (!broken) warp_sync();
  read_rows<1>(out, chunk(t));
}

TEST_CASE("read_before_barrier") {
  check_twins(
      {missing_barrier, store_without_barrier, barrier_before_wait, ldmatrix_without_warp_sync,
       copy_without_warp_sync, one_lane_stores_for_ldmatrix, shuffle_is_no_barrier},
      HazardKind::kReadBeforeBarrier);
}

void overwrite(const float* in, float*, bool broken) {
  const int t = thread_index();
  store_shared<float>(chunk(t), load_global(in + t));
  block_sync();
  const float other = load_shared<float>(chunk(kThreads - 1 - t));
  if (!broken) block_sync();
  store_shared<float>(chunk(t), other);
}

// The next copy starts while other warps still read. The emulator checks it when it is issued.
void copy_over_a_tile_in_use(const float* in, float* out, bool broken) {
  const int t = thread_index();
  copy_chunk(in);
  cp_async_wait<0>();
  block_sync();
  uint32_t r[4];
  ldmatrix_x4(r, chunk((t + 32) % kThreads));
  if (!broken) block_sync();
  copy_chunk(in);
  cp_async_wait<0>();
  store_global(out + t, static_cast<float>(r[0]));
}

void overwrite_within_a_warp(const float*, float* out, bool broken) {
  const int t = thread_index();
  store_shared<float>(chunk(t), 1.0f);
  warp_sync();
  const float other = load_shared<float>(chunk(t ^ 1));
  if (!broken) warp_sync();
  store_shared<float>(chunk(t), other + 1.0f);
  store_global(out + t, other);
}

// In natural order the reader runs first, so only the check of the write can detect it.
void overwrite_what_the_lane_before_reads(const float*, float* out, bool broken) {
  const int t = thread_index();
  store_shared<float>(chunk(t), 1.0f);
  block_sync();
  read_chunk(out, t | 1);
  if (!broken) warp_sync();
  if (t % 2 == 1) store_shared<float>(chunk(t), 2.0f);
}

TEST_CASE("overwrite_while_read") {
  check_twins({overwrite, copy_over_a_tile_in_use, overwrite_what_the_lane_before_reads,
               overwrite_within_a_warp},
              HazardKind::kOverwriteWhileRead);
}

void two_writers(const float*, float*, bool broken) {
  const int t = thread_index();
  store_shared<float>(chunk(broken ? t / 2 : t), 1.0f);
}

void two_copies_in_flight(const float* in, float*, bool broken) {
  const int t = thread_index();
  copy_chunk(in);
  if (!broken) cp_async_wait<0>();
  cp_async_16(chunk(t), in, 16);
  cp_async_commit();
  cp_async_wait<0>();
}

void writers_of_two_warps(const float*, float*, bool broken) {
  const int t = thread_index();
  store_shared<float>(chunk(t), 1.0f);
  if (!broken) block_sync();
  store_shared<float>(chunk((t + 32) % kThreads), 2.0f);
}

TEST_CASE("write_write") {
  check_twins({two_writers, two_copies_in_flight, writers_of_two_warps}, HazardKind::kWriteWrite);
}

void uninitialized(const float*, float* out, bool broken) {
  const int t = thread_index();
  if (!broken || t != 5) store_shared<float>(chunk(t), 1.0f);
  block_sync();
  read_chunk(out, kThreads - 1 - t);
}

// Past the last row, although the row itself exists, because ldmatrix reads 16 bytes and not 8.
void half_a_row(const float*, float* out, bool broken) {
  const int t = thread_index();
  store_shared<double>(chunk(t), 1.0);
  if (!broken) store_shared<double>(chunk(t) + 8, 1.0);
  warp_sync();
  read_rows<1>(out, chunk(t));
}

TEST_CASE("uninitialized_read") {
  check_twins({uninitialized, half_a_row}, HazardKind::kUninitializedRead);
  CHECK(run_kernel(uninitialized, true).hazards[0].thread == kThreads - 1 - 5);
}

void shared_store_behind_the_end(const float*, float*, bool broken) {
  store_shared<float>(chunk(broken ? thread_index() + 1 : thread_index()), 1.0f);
}

void shared_copy_before_the_start(const float* in, float*, bool broken) {
  const int t = thread_index();
  cp_async_16(chunk(broken ? t - 1 : t), in + 4 * t, 16);
}

void ldmatrix_behind_the_end(const float*, float*, bool broken) {
  const int t = thread_index();
  fill_chunk(t);
  block_sync();
  uint32_t r[4];
  ldmatrix_x4(r, chunk(broken ? t + 1 : t));
}

void global_load_behind_the_end(const float* in, float* out, bool broken) {
  const int t = thread_index();
  const float x = load_global(in + (broken && t == 3 ? kThreads * 4 : t));
  store_global(out + t, x);
}

void global_store_before_the_start(const float*, float* out, bool broken) {
  const int t = thread_index();
  store_global(out + (broken ? t - 1 : t), 1.0f);
}

void global_copy_over_the_end(const float* in, float*, bool broken) {
  const int t = thread_index();
  cp_async_16(chunk(t), in + 4 * (broken ? t + 1 : t), 16);
}

void wild_pointer(const float* in, float* out, bool broken) {
  const int t = thread_index();
  float local = 0;
  const float x = load_global(broken ? &local : in + t);  // not a registered buffer
  store_global(out + t, x);
}

void copy_of_too_much(const float* in, float*, bool broken) {
  const int t = thread_index();
  cp_async_16(chunk(t), in, broken ? 17 : 16);
}

TEST_CASE("out_of_bounds, shared and global") {
  check_twins({shared_store_behind_the_end, shared_copy_before_the_start, ldmatrix_behind_the_end,
               global_load_behind_the_end, global_store_before_the_start, global_copy_over_the_end,
               wild_pointer, copy_of_too_much},
              HazardKind::kOutOfBounds);
  const Report report = run_kernel(global_load_behind_the_end, true);
  CHECK(report.hazards[0].thread == 3);
  CHECK(report.hazards[0].text.find("in[256]") != std::string::npos);
  // Addresses in shared memory count from the block's first byte.
  CHECK(run_kernel(ldmatrix_behind_the_end, true).hazards[0].address == kSmem);
}

void misaligned_copy(const float* in, float*, bool broken) {
  const int t = thread_index();
  if (t < kThreads - 1) cp_async_16(chunk(t), in + 4 * t + (broken ? 1 : 0), 16);
}

void misaligned_row(const float*, float*, bool broken) {
  const int t = thread_index();
  fill_chunk(t);
  block_sync();
  uint32_t r[1];
  ldmatrix_x1(r, chunk(t % 32) + (broken ? 8 : 0));
}

void misaligned_load(const float* in, float* out, bool broken) {
  const int t = thread_index();
  const auto* pairs = reinterpret_cast<const uint64_t*>(in + (broken ? 1 : 0));
  if (t < 32) store_global(out + t, static_cast<float>(load_global(pairs + t)));
}

TEST_CASE("misaligned") {
  check_twins({misaligned_copy, misaligned_row, misaligned_load}, HazardKind::kMisaligned);
}

// Barriers and waits that a run leaves out by place and by label.
void two_tiles(const float* in, float* out, bool) {
  const int t = thread_index();
  copy_chunk(in);
  cp_async_wait<0>("landed");
  block_sync("tile complete");
  read_chunk(out, kThreads - 1 - t);
  block_sync("tile read");
  store_shared<float>(chunk(t), 1.0f);
}

TEST_CASE("a run without one barrier or one wait") {
  const auto run_without = [](const fa::simt::LeaveOut& leave_out, uint64_t seed) {
    Buffer<float> in(kThreads * 4, "in"), out(kThreads * 4, "out");
    Config config{.schedule_seed = seed, .leave_out = {leave_out}};
    return fa::simt::run(config, [&] {
      launch(two_tiles, 1, kThreads, kSmem, static_cast<const float*>(in.data()), out.data(),
             false);
    });
  };
  const Report intact = run_kernel(two_tiles, false);
  CHECK(kinds(intact) == "");
  REQUIRE(intact.synchronizations.size() == 3);
  const char* const names[] = {"cp_async_wait", "block_sync", "block_sync"};
  const char* const labels[] = {"landed", "tile complete", "tile read"};
  // Without the wait, the store at the end also overlaps a copy that is still in flight.
  const char* const symptoms[] = {"read_before_wait write_write", "read_before_barrier",
                                  "overwrite_while_read"};
  for (size_t i = 0; i < 3; ++i) {
    const fa::simt::Synchronization& sync = intact.synchronizations[i];
    CHECK(sync.instruction == names[i]);
    CHECK(sync.label == labels[i]);
    CHECK(!sync.left_out);
    const std::string line = ":" + std::to_string(sync.where.line);
    for (const std::string& site :
         {sync.label, "common/simt/test_hazards.cpp" + line, "test_hazards.cpp" + line}) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const Report report = run_without({site}, seed);
        CAPTURE(site);
        CHECK(kinds(report) == symptoms[i]);
        CHECK(report.synchronizations[i].left_out);
        CHECK(report.synchronizations.size() == 3);
      }
    }
  }
  CHECK(kinds(run_without({"hazards.cpp:1"}, 0)) == "");  // part of a name, or no such line
  CHECK(kinds(run_without({""}, 0)) == "");
}

TEST_CASE("a barrier for one warp only, and a wait for too few groups") {
  Buffer<float> in(kThreads * 4, "in"), out(kThreads * 4, "out");
  Config config;
  const auto run = [&](const fa::simt::LeaveOut& leave_out) {
    config.leave_out = {leave_out};
    return fa::simt::run(config, [&] {
      launch(two_tiles, 1, kThreads, kSmem, static_cast<const float*>(in.data()), out.data(),
             false);
    });
  };
  CHECK(kinds(run({.site = "tile read", .except_warp = 0})).find("barrier_divergence") !=
        std::string::npos);
  CHECK(kinds(run({.site = "landed", .more_groups = 1})) == "read_before_wait write_write");
}

TEST_CASE("one entry for each line, with a count and the two threads") {
  const Report report = run_kernel(missing_barrier, true);
  REQUIRE(report.hazards.size() == 1);
  const fa::simt::Hazard& hazard = report.hazards[0];
  CHECK(hazard.count > 1);
  CHECK(hazard.thread != hazard.other_thread);
  CHECK(hazard.other.line == hazard.where.line - 4);    // the cp.async
  CHECK(hazard.text.find("in[") != std::string::npos);  // names the source of the bytes
}

TEST_CASE("a hazard's steps are those of its two instructions in the event log") {
  const auto line_at = [](const Report& report, int thread, int64_t step) {
    for (const fa::simt::Event& event : report.events) {
      if (event.warp == thread / 32 && event.step == step) return event.where.line;
    }
    return 0;
  };
  // The last three have barriers before the access, which the steps must count.
  for (const Kernel kernel : {missing_wait, missing_barrier, two_copies_in_flight, overwrite,
                              copy_over_a_tile_in_use, barrier_before_wait}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Report report = run_kernel(kernel, true, seed);
      REQUIRE(report.hazards.size() == 1);
      const fa::simt::Hazard& hazard = report.hazards[0];
      CAPTURE(hazard.text);
      CHECK(line_at(report, hazard.thread, hazard.step) == hazard.where.line);
      CHECK(line_at(report, hazard.other_thread, hazard.other_step) == hazard.other.line);
    }
  }
}

}  // namespace
