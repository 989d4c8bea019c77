#include <doctest/doctest.h>

#include <numeric>
#include <transpose.hpp>

#include "exercises/support/warp.hpp"

using fa::simt::HazardKind;

using namespace emulator::debugging;

TEST_CASE("a tile") {
  fa::simt::Buffer<float> in(TILE * TILE, "in"), out(TILE * TILE, "out");
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  const auto report = fa::simt::run(
      {}, [&] { emulator::launch(transpose, 1, NUM_THREADS, SMEM_BYTES, in.data(), out.data()); });
  const auto& counters = report.counters;
  const auto loads = counters.shared_load_wavefronts, stores = counters.shared_store_wavefronts;
  INFO("  load wavefronts ", loads, ", ideal ", counters.shared_load_wavefronts_ideal,
       "\n  store wavefronts ", stores, ", ideal ", counters.shared_store_wavefronts_ideal);
  const auto sectors = counters.global_load_sectors + counters.global_store_sectors;
  constexpr int64_t ideal_sectors = 2 * TILE * TILE * 4 / 32;
  const bool right = report.hazards.empty();
  const bool out_of_bounds = exercise::has(report, HazardKind::kOutOfBounds);
  const std::vector<exercise::Suspect> suspects = {
      {"even-pitch", right && PITCH % 2 == 0 && PITCH % 32 && loads == 32 * std::gcd(PITCH, 32),
       "with an even pitch rows of a column share a bank, so that each load takes two wavefronts "
       "or more"},
      {"too-few-distances",
       right && PITCH % 32 == 0 && stores == 32 && loads > 32 && loads < 1024 &&
           sectors == ideal_sectors,
       "the rows are a multiple of 32 banks long, and moved against each other by too few "
       "distances: some of a column still share a bank. With single floats each of the 32 rows "
       "needs a different distance (row % 8 is for chunks of 16 bytes)"},
      {"conflict-moved", right && loads == 32 && stores == 1024,
       "now the stores go down a column, so that they have the conflicts that the loads had"},
      {"global-out-of-order", right && loads + stores == 64 && sectors > ideal_sectors,
       "shared memory is fast, but neighbouring lanes no longer go to neighbouring addresses of "
       "global memory"},
      {"no-padding", right && loads == 1024 && stores == 32 && PITCH == TILE,
       "without padding a whole column lies in one bank, as it did before"},
      {"memory-grown", TILE * PITCH * 4 > 8192 && (right ? loads + stores == 64 : out_of_bounds),
       "no bank is hit twice, but a row is longer than the memory allows: it needs 32 floats, and "
       "an odd number of them is free of conflicts"},
      {"rows-overlap", exercise::has(report, HazardKind::kWriteWrite),
       "a row is shorter than its 32 floats: its end is the beginning of the next"}};
  exercise::check_no_hazards(report, suspects);
  if (!right) return;
  exercise::check(loads + stores == 64, std::to_string(loads + stores) + " wavefronts, 64 would do",
                  suspects);
  exercise::check(sectors == ideal_sectors,
                  std::to_string(sectors) + " sectors of global memory, " +
                      std::to_string(ideal_sectors) + " would do",
                  suspects);
  exercise::check(SMEM_BYTES <= 8192,
                  "SMEM_BYTES is " + std::to_string(SMEM_BYTES) + ", more than 8192", suspects);
  exercise::Numbers transposed;
  for (int i = 0; i < TILE * TILE; ++i) transposed.push_back(in[i % TILE * TILE + i / TILE]);
  exercise::check_output(
      {"out", TILE, 0}, exercise::numbers(out), transposed,
      {{"not-transposed", exercise::numbers(in), "out is a copy of in, because rows became rows"}});
}
