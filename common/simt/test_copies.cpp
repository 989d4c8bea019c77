// Tests cp.async, namely when its bytes land, which copies a group and a wait cover, and how it
// fills with zeros.

#include <doctest/doctest.h>

#include <cmath>

#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::Report;

constexpr int kThreads = 64;
constexpr uint32_t kSmem = kThreads * 16;

uint32_t chunk(int i) { return dynamic_smem() + static_cast<uint32_t>(i) * 16; }

// One thread records what it sees of its bytes after each step.
void watch(const float* in, float* seen) {
  const auto look = [&](int step, int i) {
    store_global(seen + step, load_shared<float>(chunk(i)));
  };
  look(0, 0);
  store_shared<float>(chunk(0), 7.0f);
  cp_async_16(chunk(0), in, 16);
  look(1, 0);  // issued, so the old value is gone, and the new one has not landed
  cp_async_commit();
  cp_async_16(chunk(1), in + 4, 16);
  cp_async_commit();
  cp_async_16(chunk(2), in + 8, 16);  // in no group yet
  cp_async_wait<2>();
  look(2, 0);  // two groups may stay in flight
  cp_async_wait<1>();
  look(3, 0);  // the older group has landed
  look(4, 1);
  cp_async_wait<0>();
  look(5, 1);
  look(6, 2);  // wait_group does not cover copies that were not committed
  cp_async_commit();
  cp_async_wait<0>();
  look(7, 2);
}

TEST_CASE("bytes land when their thread waits for their group, and are NaN until then") {
  Buffer<float> in(12, "in"), seen(8, "seen");
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  for (bool hazards : {false, true}) {
    fa::simt::Config config{.hazards = hazards};
    const Report report = fa::simt::run(config, [&] {
      launch(watch, 1, 1, 64, static_cast<const float*>(in.data()), seen.data());
    });
    CHECK(kinds(report) == (hazards ? "read_before_wait uninitialized_read" : ""));
    const float nan = std::nanf("");
    const float expected[] = {nan, nan, nan, 0.0f, nan, 4.0f, nan, 8.0f};
    for (size_t i = 0; i < 8; ++i) {
      CAPTURE(i);
      CHECK(std::isnan(seen[i]) == std::isnan(expected[i]));
      if (!std::isnan(expected[i])) CHECK(seen[i] == expected[i]);
    }
  }
}

// The source changes while the copy is in flight, and the copy reads the latest bytes.
void late_source(float* in, float* out) {
  const int t = thread_index();
  cp_async_16(chunk(t), in + 4 * t, 16);
  cp_async_commit();
  store_global(in + 4 * t, 5.0f);
  cp_async_wait<0>();
  store_global(out + t, load_shared<float>(chunk(t)));
}

TEST_CASE("the source is read at the latest moment too") {
  Buffer<float> in(kThreads * 4, "in"), out(kThreads, "out");
  fa::simt::run({}, [&] { launch(late_source, 1, kThreads, kSmem, in.data(), out.data()); });
  for (float x : out) CHECK(x == 5.0f);
}

// Rows past the end are copied with a source size of 0, or less than 16. Only bytes that are read
// are checked.
void zero_filled_tail(const float* in, float* out, bool broken) {
  const int t = thread_index();
  const int bytes = t == kThreads - 1 ? 8 : 16;
  cp_async_16(chunk(t), in + 4 * t, broken ? 16 : bytes);
  cp_async_commit();
  cp_async_wait<0>();
  for (int i = 0; i < 4; ++i) {
    store_global(out + 4 * t + i, load_shared<float>(chunk(t) + static_cast<uint32_t>(4 * i)));
  }
}

TEST_CASE("a zero-filled copy is checked for its source size only") {
  Buffer<float> in(kThreads * 4 - 2, "in"), out(kThreads * 4, "out");
  for (float& x : in) x = 1.0f;
  for (bool broken : {false, true}) {
    const Report report = fa::simt::run({}, [&] {
      launch(zero_filled_tail, 1, kThreads, kSmem, static_cast<const float*>(in.data()), out.data(),
             broken);
    });
    if (broken) {
      CHECK(kinds(report) == "out_of_bounds uninitialized_read");
    } else {
      CHECK(kinds(report) == "");
      for (size_t i = 0; i < out.size(); ++i) CHECK(out[i] == (i < in.size() ? 1.0f : 0.0f));
    }
  }
}

void nothing_to_read(float* out) {
  const int t = thread_index();
  cp_async_16(chunk(t), nullptr, 0);
  cp_async_commit();
  cp_async_wait<0>();
  store_global(out + t, load_shared<float>(chunk(t)));
}

TEST_CASE("a copy of source size 0 may name any address, and writes zeros") {
  Buffer<float> out(kThreads, "out");
  for (float& x : out) x = 1.0f;
  const Report report =
      fa::simt::run({}, [&] { launch(nothing_to_read, 1, kThreads, kSmem, out.data()); });
  CHECK(kinds(report) == "");
  CHECK(report.counters.global_load_sectors == 0);
  for (float x : out) CHECK(x == 0.0f);
}

TEST_CASE("an address behind a buffer is named after it, not after its neighbour") {
  for (const size_t size : {1, 100, 12345}) {
    Buffer<float> q(size, "Q"), k(size, "K"), v(size, "V");
    for (const size_t beyond : {0, 1, 7000}) {
      CHECK(fa::simt::describe_address(q.data() + size + beyond) ==
            "Q[" + std::to_string(size + beyond) + "]");
    }
  }
}

}  // namespace
