#include <doctest/doctest.h>

#include <algorithm>
#include <copy_tile.hpp>

#include "exercises/support/warp.hpp"

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

// The loop as people write it: right as it stands here, and each mistake is a change to it.
struct Way {
  enum Order {
    kStrided,
    kPieces,
    kRows,
    kAll,
    kLane
  } order = kStrided;  // which chunks a thread takes
  enum Tail { kZeros, kSkipped, kRead, kByChunk, kByElement } tail = kZeros;
  int last_row = 0;  // 1: row <= rows
  int end = CHUNKS, step = NUM_THREADS;
  int bytes = 16, dst = 16, src = 8, row_chunks = WIDTH / 8;
};

static Seen run(int rows, const Way& way) {
  return run(rows, [&](uint32_t smem, const fa::bf16* gmem) {
    int first = thread_index(), end = way.end, step = way.step;
    if (way.order == Way::kPieces)
      first = thread_index() * (CHUNKS / NUM_THREADS), end = first + CHUNKS / NUM_THREADS, step = 1;
    if (way.order == Way::kRows) {
      first = thread_index() * way.row_chunks, step = 1;
      end = thread_index() < HEIGHT ? first + way.row_chunks : 0;
    }
    if (way.order == Way::kAll) first = 0, step = 1;
    if (way.order == Way::kLane) first = lane_index();
    for (int chunk = first; chunk < end; chunk += step) {
      const bool by_row = way.tail != Way::kByChunk && way.tail != Way::kByElement;
      const int place = by_row                      ? chunk / way.row_chunks
                        : way.tail == Way::kByChunk ? chunk
                                                    : chunk * 8;
      const bool there = place < rows + way.last_row;
      if (!there && way.tail == Way::kSkipped) continue;
      cp_async_16(smem + chunk * way.dst, gmem + chunk * way.src,
                  there || way.tail == Way::kRead ? way.bytes : 0);
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
    return label == UNWRITTEN ? std::string("NaN, which nobody wrote")
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
  std::vector<exercise::Look> looks;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    looks.push_back({name, run(rows, way).shown(), explanation});
  };
  const char* const apart =
      "neighbouring lanes do not copy neighbouring chunks, so each lane has a sector to itself and "
      "uses half of it; thread t should begin with chunk t";
  mistake("lanes-apart", apart, {.order = Way::kRows});
  mistake("lanes-apart", apart, {.order = Way::kPieces});
  const char* const left_out =
      "rows that do not exist were skipped, and their place in the tile keeps what was there "
      "before; copy them with source_bytes 0, which writes zeros";
  mistake("tail-left-out", left_out, {.tail = Way::kSkipped});
  mistake("tail-left-out", left_out, {.order = Way::kRows, .tail = Way::kSkipped});
  mistake("tail-read-anyway",
          "rows that do not exist were read: source_bytes must be 0 for them, and a row has WIDTH "
          "/ 8 chunks",
          {.tail = Way::kRead});
  const char* const no_row =
      "the number of the chunk was compared with the number of rows; chunk c is in row c / (WIDTH "
      "/ 8)";
  mistake("chunk-for-row", no_row, {.tail = Way::kByChunk});
  mistake("chunk-for-row", no_row, {.tail = Way::kByElement});
  mistake("one-row-too-many",
          "the first row that does not exist was read: rows 0 to rows - 1 exist, so < and not <=",
          {.last_row = 1});
  mistake("past-the-tile",
          "the loop goes past the tile: it has HEIGHT * WIDTH / 8 chunks, the last is the one "
          "before that number",
          {.end = CHUNKS + 1});
  mistake("elements-for-bytes",
          "chunk c went to byte 8c; an address in shared memory counts bytes, and a chunk has 16",
          {.dst = 8});
  mistake("elements-for-bytes",
          "chunk c went to byte c; an address in shared memory counts bytes, and a chunk has 16",
          {.dst = 1});
  mistake("bytes-for-elements",
          "chunk c came from gmem + 16c; a pointer counts elements, and a chunk has 8",
          {.src = 16});
  mistake("chunks-for-elements",
          "chunk c came from gmem + c; a pointer counts elements, and a chunk has 8", {.src = 1});
  mistake("half-a-chunk",
          "source_bytes is 8, so the second half of each chunk was filled with zeros; it counts "
          "bytes, and 8 elements are 16",
          {.bytes = 8});
  mistake("one-chunk-a-thread",
          "each thread copied one chunk, and the tile has more chunks than there are threads: "
          "there is no loop, or its step is more than NUM_THREADS chunks",
          {.end = NUM_THREADS});
  mistake("every-thread-copies-all",
          "every thread copied the whole tile; thread t begins with chunk t, and goes on by "
          "NUM_THREADS",
          {.order = Way::kAll});
  mistake("lane-for-thread",
          "lane_index() counts 0 to 31 in each warp, so all warps copied the same chunks; "
          "thread_index() counts through the block",
          {.order = Way::kLane});
  const char* const step =
      "the threads went on by less than NUM_THREADS chunks, and copied again what others copy";
  for (const int by : {1, 8, 16, 32, 64}) mistake("step-too-short", step, {.step = by});
  exercise::check_shown(wrong == 0 && seen.report.hazards.empty() && seen.sectors() == fewest,
                        message, seen.shown(), looks);
}

TEST_CASE("a whole tile") { check_copy(32); }
TEST_CASE("more rows than the tile has") { check_copy(40); }
TEST_CASE("a ragged tile: 19 rows exist") { check_copy(19); }
