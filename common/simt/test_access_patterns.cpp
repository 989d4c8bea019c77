// Compares the wavefronts and sectors of plain loads and stores with an H200's counts for the same
// addresses.

#include <doctest/doctest.h>

#include "common/simt/access_patterns.hpp"
#include "common/simt/simt.hpp"

namespace {

using namespace emulator::access_patterns;
using fa::simt::Counters;

int64_t Counters::*counter_of(Access kind) {
  switch (kind) {
    case Access::kLoadShared:
      return &Counters::shared_load_wavefronts;
    case Access::kStoreShared:
      return &Counters::shared_store_wavefronts;
    case Access::kLoadGlobal:
      return &Counters::global_load_sectors;
    case Access::kStoreGlobal:
      return &Counters::global_store_sectors;
  }
  throw std::logic_error("an access without a counter");
}

TEST_CASE("plain accesses count as an H200 counted them") {
  const auto patterns = read_patterns(FA_SOURCE_DIR "/docs/measurements/h200/access_patterns.csv");
  fa::simt::Buffer<Words<4>> array(MOST_ELEMENTS, "array"), sink(MOST_ELEMENTS, "sink");
  fa::simt::Config config;
  config.hazards = false;  // the kernels read memory that no thread has written
  config.threads = 1;
  int counted[4] = {};
  for (const Pattern& pattern : patterns) {
    const fa::simt::Report report =
        fa::simt::run(config, [&] { run(pattern, array.data(), sink.data()); });
    CAPTURE(pattern.line);
    CAPTURE(pattern.bytes);
    CHECK(report.counters.*counter_of(pattern.kind) == pattern.counted);
    ++counted[static_cast<int>(pattern.kind)];
  }
  CHECK(counted[0] == 618);
  CHECK(counted[1] == 618);
  CHECK(counted[2] == 128);
  CHECK(counted[3] == 128);
}

}  // namespace
