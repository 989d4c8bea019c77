#include <doctest/doctest.h>

#include "exercises/support/cuda.hpp"

using exercise::Numbers;

constexpr int THREADS = 128;

static void check_tiles(int tiles) {
  const exercise::CudaRun run = exercise::run_cuda({std::to_string(tiles)});
  const Numbers got = run.numbers("y"), in_flight = run.numbers("in flight");
  Numbers expected;
  for (int i = 0; i < tiles * THREADS; ++i) {
    const int from = i / THREADS * THREADS + THREADS - 1 - i % THREADS;
    for (int k = 0; k < 4; ++k) expected.push_back(4 * from + k);
  }
  Numbers overlapped(static_cast<size_t>(tiles),
                     1);  // the next tile's copy, except in the last pass
  overlapped.back() = 0;
  const bool waits = static_cast<int>(in_flight.size()) == tiles;
  const bool last_in_flight = waits && in_flight.back() == 1;
  const std::vector<exercise::Suspect> suspects = {
      {"wait-forgotten", run.has("read_before_wait") && in_flight.empty(),
       "a tile is read while it is being copied: no wait covers the copy"},
      {"last-group-missing", run.has("read_before_wait") && last_in_flight,
       "the last wait leaves one group in flight, and that group is the last tile's. Commit a "
       "group "
       "in the last pass as well, even though it is empty"},
      {"one-stage", run.has("write_write"),
       "the next tile is copied over this one. It needs a stage of its own: tile % STAGES with two "
       "stages"},
      {"past-the-end", run.has("out_of_bounds"), "there is no tile after the last one"},
      {"wait-after-the-barrier",
       run.has("read_before_barrier") && run.counter("barriers") == 2 * 4 * tiles,
       "a wait covers only this thread's copies. After it, a barrier has to tell the other "
       "threads"},
      {"first-barrier-forgotten",
       run.has("read_before_barrier") && run.counter("barriers") == 4 * tiles,
       "a wait covers only this thread's copies, and other threads read them: a barrier is missing "
       "after the wait"},
      {"second-barrier-forgotten", run.only({"overwrite_while_read"}),
       "a fast thread copies the tile after the next one into a stage that a slow thread still "
       "reads: a barrier is missing after the read"},
      {"waits-for-all", run.hazards.empty() && waits && in_flight == Numbers(in_flight.size(), 0),
       "right, but each wait is for all copies, so nothing is copied while a tile is used. "
       "__pipeline_wait_prior(1) leaves the newest group in flight"}};
  if (!exercise::check_no_hazards(run, suspects)) return;
  exercise::check_output({"y", 4 * THREADS, 0}, got, expected);
  if (got != expected) return;
  exercise::check(
      in_flight == overlapped,
      "right, but after the waits of thread 0 " +
          [&] {
            std::string text = in_flight.empty() ? "(there are none)" : "";
            for (const double copies : in_flight) text += exercise::text(copies) + " ";
            return text;
          }() +
          "copies are in flight, expected one, and none in the last pass",
      suspects);
}

TEST_CASE("four tiles") { check_tiles(4); }
TEST_CASE("one tile") { check_tiles(1); }
TEST_CASE("five tiles") { check_tiles(5); }
