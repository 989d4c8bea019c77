#include <doctest/doctest.h>

#include <algorithm>
#include <copy_tile.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using exercise::UNWRITTEN;
using fa::simt::HazardKind;

constexpr int HEIGHT = 32, WIDTH = 64, NUM_THREADS = 128;

static void check_copy(int rows) {
  const std::vector<uint16_t> labels = exercise::labelled_matrix(rows, WIDTH);
  fa::simt::Buffer<fa::bf16> gmem(labels.size(), "gmem");
  for (size_t i = 0; i < labels.size(); ++i) gmem[i] = {labels[i]};

  std::vector<uint16_t> tile(HEIGHT * WIDTH);
  const fa::simt::Report report = exercise::run_block(NUM_THREADS, tile.size() * 2, [&] {
    const fa::bf16* first_row = gmem.data();
    ex03::copy_tile<HEIGHT, WIDTH, NUM_THREADS>(dynamic_smem(), first_row, rows);
    cp_async_commit();
    cp_async_wait<0>();
    block_sync();
    for (size_t i = thread_index(); i < tile.size(); i += NUM_THREADS)
      tile[i] = load_shared<uint16_t>(dynamic_smem() + static_cast<uint32_t>(i) * 2);
  });

  const size_t copied = static_cast<size_t>(std::min(rows, HEIGHT)) * WIDTH;
  bool tail_unwritten = copied < tile.size();
  size_t wrong = 0, first = 0, head_wrong = 0;
  for (size_t i = tile.size(); i-- > 0;) {
    const bool ok = tile[i] == (i < copied ? labels[i] : 0);
    if (!ok) first = i;
    wrong += !ok;
    head_wrong += !ok && i < copied;
    if (i >= copied) tail_unwritten = tail_unwritten && tile[i] == UNWRITTEN;
  }
  const int64_t sectors = report.counters.global_load_sectors;
  const int64_t fewest = static_cast<int64_t>(copied) * 2 / 32;
  std::string message = std::to_string(rows) + " rows exist: ";
  if (wrong) {
    message += "row " + std::to_string(first / WIDTH) + ", column " +
               std::to_string(first % WIDTH) + " of the tile: expected " +
               (first < copied ? "gmem[" + std::to_string(first) + "], got " : "0, got ") +
               (tile[first] == UNWRITTEN ? "NaN, which nobody wrote"
                                         : "gmem[" + std::to_string(tile[first]) + "]") +
               "; " + std::to_string(wrong) + " of " + std::to_string(tile.size()) + " are wrong";
  } else {
    message += "the tile is right; " + std::to_string(sectors) +
               " sectors of 32 bytes were asked for, " + std::to_string(fewest) + " hold it";
  }
  const bool outside = exercise::has(report, HazardKind::kOutOfBounds);
  exercise::check(
      wrong == 0 && report.hazards.empty() && sectors == fewest,
      exercise::hazards(report) + message,
      {{"lanes-apart", wrong == 0 && report.hazards.empty() && sectors == 2 * fewest,
        "neighbouring lanes do not copy neighbouring chunks, so each lane has a sector to itself "
        "and uses half of it; thread t should begin with chunk t"},
       {"tail-left-out", head_wrong == 0 && tail_unwritten && !outside,
        "rows that do not exist were skipped, and their place in the tile keeps what was there "
        "before; copy them with source_bytes 0, which writes zeros"},
       {"tail-read-anyway", head_wrong == 0 && tail_unwritten && outside,
        "rows that do not exist were read; source_bytes must be 0 for them"},
       {"elements-for-bytes", exercise::has(report, HazardKind::kMisaligned) && tile[8] == 16,
        "chunk c went to byte 8c; an address in shared memory counts bytes, and a chunk has 16"}});
}

TEST_CASE("a whole tile") { check_copy(32); }
TEST_CASE("more rows than the tile has") { check_copy(40); }
TEST_CASE("a ragged tile: 19 rows exist") { check_copy(19); }
