#include <doctest/doctest.h>

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
  INFO("TODO(D.5): this kernel is slow; find the line and mend it\n  load wavefronts ", loads,
       ", ideal ", counters.shared_load_wavefronts_ideal, "\n  store wavefronts ", stores,
       ", ideal ", counters.shared_store_wavefronts_ideal);
  const bool right = report.hazards.empty();
  const std::vector<exercise::Suspect> suspects = {
      {"even-pitch", right && loads == 64,
       "with an even pitch two rows of a column share a bank: two wavefronts for each load"},
      {"no-padding", right && loads == 1024 && emulator::debugging::PITCH == TILE,
       "without padding a whole column lies in one bank, as it did before"},
      {"rows-overlap", exercise::has(report, HazardKind::kWriteWrite),
       "a row is shorter than its 32 floats: its end is the beginning of the next"}};
  exercise::check_no_hazards(report, suspects);
  if (!right) return;
  exercise::check(loads + stores == 64, std::to_string(loads + stores) + " wavefronts, 64 would do",
                  suspects);
  exercise::check(SMEM_BYTES <= 8192, "the memory may not grow");
  exercise::Numbers transposed;
  for (int i = 0; i < TILE * TILE; ++i) transposed.push_back(in[i % TILE * TILE + i / TILE]);
  exercise::check_output({"out", TILE, 0}, exercise::numbers(out), transposed);
}
