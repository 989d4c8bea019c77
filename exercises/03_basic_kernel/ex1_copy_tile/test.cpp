#include <doctest/doctest.h>

#include <algorithm>
#include <copy_tile.hpp>

#include "exercises/support/warp.hpp"

using exercise::Changes;
using namespace emulator;
using exercise::UNWRITTEN;

constexpr int HEIGHT = 32, WIDTH = 64, NUM_THREADS = 128, CHUNKS = HEIGHT * WIDTH / 8;

struct Seen {
  std::vector<uint16_t> tile;
  fa::simt::Report report;

  int64_t sectors() const { return report.counters.global_load_sectors; }
  // All that a mistake must explain.
  std::string shown() const {
    std::string all = exercise::hazard_kinds(report) + std::to_string(sectors());
    for (const uint16_t element : tile) all += " " + std::to_string(element);
    return all;
  }
};

// Element i of gmem is i + 1: a 0 was written for what does not exist.
template <class Copy>
static Seen run(int rows, Copy copy) {
  const std::vector<uint16_t> labels = exercise::labelled_matrix(rows, WIDTH);
  fa::simt::Buffer<fa::bf16> gmem(labels.size(), "gmem");
  for (size_t i = 0; i < labels.size(); ++i) gmem[i] = {static_cast<uint16_t>(labels[i] + 1)};
  Seen seen{std::vector<uint16_t>(HEIGHT * WIDTH), {}};
  seen.report = exercise::run_block(NUM_THREADS, seen.tile.size() * 2, [&] {
    const fa::bf16* first_row = gmem.data();
    copy(dynamic_smem(), first_row);
    cp_async_commit();
    cp_async_wait<0>();
    block_sync();
    for (size_t i = thread_index(); i < seen.tile.size(); i += NUM_THREADS)
      seen.tile[i] = load_shared<uint16_t>(dynamic_smem() + static_cast<uint32_t>(i) * 2);
  });
  return seen;
}

static const exercise::Table MISTAKES(R"(
lanes-apart: rows; pieces
  neighbouring lanes do not copy neighbouring chunks, so each lane has a sector to itself and uses
  half of it. Thread t should begin with chunk t
tail-left-out: {,rows }skipped
  rows that do not exist were skipped, and their place in the tile keeps what was there before. Copy
  them with source_bytes 0, which writes zeros
tail-read-anyway
  rows that do not exist were read: source_bytes must be 0 for them, and a row has WIDTH / 8
  chunks
chunk-for-row: by-chunk; by-element
  the number of the chunk was compared with the number of rows. Chunk c is in row c / (WIDTH / 8)
one-row-too-many
  the first row that does not exist was read: rows 0 to rows - 1 exist, so < and not <=
past-the-tile
  the loop goes past the tile, whose last chunk is HEIGHT * WIDTH / 8 - 1
elements-for-bytes: dst=8
  chunk c went to byte 8c. An address in shared memory counts bytes, and a chunk has 16
elements-for-bytes: dst=1
  chunk c went to byte c. An address in shared memory counts bytes, and a chunk has 16
bytes-for-elements: src=16
  chunk c came from gmem + 16c. A pointer counts elements, and a chunk has 8
chunks-for-elements: src=1
  chunk c came from gmem + c. A pointer counts elements, and a chunk has 8
half-a-chunk: bytes=8
  source_bytes is 8, so the second half of each chunk was filled with zeros. It counts bytes, and 8
  elements are 16
one-chunk-a-thread
  each thread copied one chunk, and the tile has more chunks than there are threads: there is no
  loop, or its step is more than NUM_THREADS chunks
every-thread-copies-all
  every thread copied the whole tile. Thread t begins with chunk t and continues NUM_THREADS chunks
  further
lane-for-thread
  lane_index() counts 0 to 31 in each warp, so all warps copied the same chunks. thread_index()
  counts through the block
step-too-short: step={1,8,16,32,64}
  the step of the loop is less than NUM_THREADS chunks, so that threads copy chunks that other
  threads copy
)");

// The right loop, and each mistake as a change to it.
static Seen run(int rows, const Changes& is) {
  return run(rows, [&](uint32_t smem, const fa::bf16* gmem) {
    int first = thread_index(), step = is.integer("step", NUM_THREADS);
    int end = is("one-chunk-a-thread") ? NUM_THREADS : CHUNKS + is("past-the-tile");
    if (is("pieces"))
      first = thread_index() * (CHUNKS / NUM_THREADS), end = first + CHUNKS / NUM_THREADS, step = 1;
    if (is("rows")) {
      first = thread_index() * (WIDTH / 8), step = 1;
      end = thread_index() < HEIGHT ? first + WIDTH / 8 : 0;
    }
    if (is("every-thread-copies-all")) first = 0, step = 1;
    if (is("lane-for-thread")) first = lane_index();
    for (int chunk = first; chunk < end; chunk += step) {
      const int row = is("by-chunk") ? chunk : is("by-element") ? chunk * 8 : chunk / (WIDTH / 8);
      const bool there = row < rows + is("one-row-too-many");
      if (!there && is("skipped")) continue;
      cp_async_16(smem + chunk * is.integer("dst", 16), gmem + chunk * is.integer("src", 8),
                  there || is("tail-read-anyway") ? is.integer("bytes", 16) : 0);
    }
  });
}

static void check_copy(int rows) {
  const Seen seen = run(rows, [&](uint32_t smem, const fa::bf16* gmem) {
    ex03::copy_tile<HEIGHT, WIDTH, NUM_THREADS>(smem, gmem, rows);
  });
  const std::vector<uint16_t>& tile = seen.tile;
  const size_t copied = static_cast<size_t>(std::min(rows, HEIGHT)) * WIDTH;
  size_t wrong = 0, first = 0;
  for (size_t i = tile.size(); i-- > 0;) {
    if (tile[i] == (i < copied ? i + 1 : 0)) continue;
    first = i;
    ++wrong;
  }
  const auto words = [](size_t label) {
    return label == UNWRITTEN ? std::string("NaN, which no thread wrote")
           : label == 0       ? std::string("0")
                              : "gmem[" + std::to_string(label - 1) + "]";
  };
  const int64_t fewest = static_cast<int64_t>(copied) * 2 / 32;
  std::string message = exercise::hazards(seen.report) + std::to_string(rows) + " rows exist: ";
  if (wrong) {
    message += "row " + std::to_string(first / WIDTH) + ", column " +
               std::to_string(first % WIDTH) + " of the tile: expected " +
               words(first < copied ? first + 1 : 0) + ", got " + words(tile[first]) + "; " +
               std::to_string(wrong) + " of " + std::to_string(tile.size()) + " are wrong";
  } else {
    message += "the tile is right; " + std::to_string(seen.sectors()) +
               " sectors of 32 bytes were asked for, " + std::to_string(fewest) + " hold it";
  }
  const auto looks =
      exercise::looks(MISTAKES, [&](const Changes& is) { return run(rows, is).shown(); });
  exercise::check_shown(wrong == 0 && seen.report.hazards.empty() && seen.sectors() == fewest,
                        message, seen.shown(), looks);
}

TEST_CASE("a whole tile") { check_copy(32); }
TEST_CASE("more rows than the tile has") { check_copy(40); }
TEST_CASE("a ragged tile: 19 rows exist") { check_copy(19); }
