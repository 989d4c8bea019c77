#include <doctest/doctest.h>

#include <stream_tiles.hpp>

#include "exercises/support/tile_sums.hpp"

using fa::simt::EventKind;
using fa::simt::HazardKind;

using namespace emulator::debugging;

static void check_stream(int num_tiles, uint64_t schedule) {
  const auto [got, right, report] =
      exercise::run_tile_sums(stream_tiles, NUM_THREADS, 2 * TILE_BYTES, num_tiles, schedule);
  // What warp 0 had in flight at each sum.
  int issued = 0, landed = 0, sum = 0, overlaps = 0, barriers = 0, waits_for_all = 0;
  std::string flights;
  for (const auto& event : report.events) {
    if (event.warp != 0) continue;
    issued += event.kind == EventKind::kCopyIssue;
    landed += event.kind == EventKind::kLand && event.bytes > 0;
    barriers += event.kind == EventKind::kBarrier;
    waits_for_all += event.kind == EventKind::kWait && event.pending_groups == 0;
    if (event.kind != EventKind::kLoadShared) continue;
    flights += "  sum of tile " + std::to_string(sum++) + ": " + std::to_string(issued - landed) +
               " in flight\n";
    overlaps += issued > landed;
  }
  const bool overwritten = exercise::has(report, HazardKind::kOverwriteWhileRead);
  const bool unwaited = exercise::has(report, HazardKind::kReadBeforeWait);
  INFO("TODO(D.4): this kernel is wrong; find the line and mend it\n", flights);
  const std::vector<exercise::Suspect> suspects = {
      {"longer-wait", overwritten && waits_for_all > 0,
       "waiting longer does not help: it is the other warp's reading that must be over, not a "
       "copy"},
      {"nothing-in-flight", report.hazards.empty() && overlaps == 0,
       "each tile is started and waited for at once: right, and two buffers for nothing"},
      {"wait-not-recounted", unwaited,
       "behind the barrier there is one group fewer in flight at the wait, so its N is one less"}};
  exercise::check_no_hazards(report, suspects);
  if (!report.hazards.empty()) return;
  exercise::check(overlaps == num_tiles - 1,
                  "the next tile should be in flight during every sum but the last", suspects);
  exercise::check(barriers == num_tiles, std::to_string(barriers) + " barriers for " +
                                             std::to_string(num_tiles) + " tiles; one is enough");
  exercise::check_output({"sums", 0, 0}, got, right);
}

TEST_CASE("five tiles") { check_stream(5, 0); }
TEST_CASE("other orders of the threads") {
  for (uint64_t schedule = 1; schedule <= 3; ++schedule) check_stream(6, schedule);
}
