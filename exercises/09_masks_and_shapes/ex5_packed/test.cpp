#include <doctest/doctest.h>

#include <algorithm>
#include <packed.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr int BLOCK_Q = 4, BLOCK_KV = 3;

// The starts of sequences of these lengths. In memory something lies in front of them and behind.
class Starts {
 public:
  Starts(const std::vector<int>& lengths, int behind) : memory_{-2, 0} {
    for (const int length : lengths) memory_.push_back(memory_.back() + length);
    memory_.push_back(memory_.back() + behind);
  }
  const int* data() const { return memory_.data() + 1; }

 private:
  std::vector<int> memory_;
};

// block_of as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  int q_late = 0, kv_late = 0;
  bool q_start_is_end = false, kv_start_is_end = false;  // and the lengths are right
  bool q_length_is_end = false, kv_length_is_end = false, kv_from_q = false, q_from_kv = false;
  bool kv_start_from_q = false, q_start_from_kv = false;  // the start alone, and the length with it
  enum Diagonal { kOwn, kOfAll, kReversed, kNone, kOfStarts, kOfEnds } diagonal = kOwn;
  enum Row { kInSequence, kCompared, kInTensor, kTile, kTileOfKeys } row = kInSequence;
  enum End { kClipped, kWhole, kWholeLate, kAlwaysWhole, kTensor, kNeighbours } end = kClipped;
  enum Tiles {
    kUp,
    kDown,
    kOneMore,
    kAtLeastOne,
    kTotal,
    kOfQueries,
    kBlocksOfQueries,
    kTouched,      // of the tensor, from the one with its first row to the one with its last
    kToItsEnd,     // of the tensor, up to its last row
    kBetweenTiles  // of the tensor, between those of the two starts
  } tiles = kUp;
  bool without_keys = true;  // queries of a sequence that has no key are visited
};

static Block block_as(const Way& way, const Packed& p, int q_tile, int sequence) {
  const int* const q = (way.q_from_kv ? p.kv_starts : p.q_starts) + sequence + way.q_late;
  const int* const kv = (way.kv_from_q ? p.q_starts : p.kv_starts) + sequence + way.kv_late;
  const int total_q = p.q_starts[p.sequences], total_kv = p.kv_starts[p.sequences];
  Block b{};
  b.q_start = way.q_start_from_kv ? kv[0] : q[0];
  b.kv_start = way.kv_start_from_q ? q[0] : kv[0];
  b.len_q = way.q_length_is_end ? q[1] : q[1] - b.q_start;
  b.len_kv = way.kv_length_is_end ? kv[1] : kv[1] - b.kv_start;
  b.diagonal = way.diagonal == Way::kOfAll      ? total_kv - total_q
               : way.diagonal == Way::kReversed ? b.len_q - b.len_kv
               : way.diagonal == Way::kNone     ? 0
               : way.diagonal == Way::kOfStarts ? kv[0] - q[0]
               : way.diagonal == Way::kOfEnds   ? kv[1] - q[1]
                                                : b.len_kv - b.len_q;
  if (way.q_start_is_end) b.q_start = q[1];
  if (way.kv_start_is_end) b.kv_start = kv[1];
  if (!way.without_keys && b.len_kv <= 0) return {};
  const bool in_tensor = way.row == Way::kCompared || way.row == Way::kInTensor;
  b.first_row = way.row == Way::kTile
                    ? q_tile
                    : q_tile * (way.row == Way::kTileOfKeys ? BLOCK_KV : BLOCK_Q) +
                          (in_tensor ? b.q_start : 0);
  const int behind = b.first_row + BLOCK_Q;
  const int end = way.row == Way::kInTensor ? b.q_start + b.len_q : b.len_q;
  const bool whole = way.end == Way::kWhole ? b.first_row < end : b.first_row <= end;
  b.end_row = way.end == Way::kClipped       ? std::min(behind, end)
              : way.end == Way::kAlwaysWhole ? behind
              : way.end == Way::kTensor      ? std::min(behind, total_q - b.q_start)
              : way.end == Way::kNeighbours
                  ? (b.first_row < end ? std::min(behind, total_q - b.q_start) : 0)
              : whole ? behind
                      : 0;
  const auto up = [](int length, int block) { return (length + block - 1) / block; };
  b.kv_tiles =
      way.tiles == Way::kDown         ? b.len_kv / BLOCK_KV
      : way.tiles == Way::kOneMore    ? b.len_kv / BLOCK_KV + 1
      : way.tiles == Way::kAtLeastOne ? (b.len_kv - 1) / BLOCK_KV + 1
      : way.tiles == Way::kTotal      ? up(total_kv, BLOCK_KV)
      : way.tiles == Way::kOfQueries  ? up(b.len_q, BLOCK_KV)
      : way.tiles == Way::kTouched    ? up(b.kv_start + b.len_kv, BLOCK_KV) - b.kv_start / BLOCK_KV
      : way.tiles == Way::kBetweenTiles ? (b.kv_start + b.len_kv) / BLOCK_KV - b.kv_start / BLOCK_KV
      : way.tiles == Way::kToItsEnd     ? up(b.kv_start + b.len_kv, BLOCK_KV)
      : way.tiles == Way::kBlocksOfQueries ? up(b.len_kv, BLOCK_Q)
                                           : up(b.len_kv, BLOCK_KV);
  return b;
}

// Of a block that has nothing to do all numbers are 0.
static Numbers fields(const Block& b) {
  if (b.end_row <= b.first_row) return Numbers(8);
  Numbers result;
  for (const int number :
       {b.q_start, b.kv_start, b.len_q, b.len_kv, b.diagonal, b.first_row, b.end_row, b.kv_tiles})
    result.push_back(number);
  return result;
}

static int longest_of(const std::vector<int>& lengths) {
  return *std::max_element(lengths.begin(), lengths.end());
}

static void check_blocks(const std::vector<int>& q_lengths, const std::vector<int>& kv_lengths) {
  const Starts q(q_lengths, 6), kv(kv_lengths, 10);
  const Packed packed{q.data(), kv.data(), static_cast<int>(q_lengths.size())};
  for (int sequence = 0; sequence < packed.sequences; ++sequence) {
    const auto blocks = [&](auto block) {
      Numbers result;
      // One tile more than the longest has: what has nothing to do must find that out by itself.
      for (int q_tile = 0; q_tile <= (longest_of(q_lengths) + BLOCK_Q - 1) / BLOCK_Q; ++q_tile) {
        const Numbers one = fields(block(q_tile));
        result.insert(result.end(), one.begin(), one.end());
      }
      return result;
    };
    std::vector<exercise::Mistake> mistakes;
    const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
      mistakes.push_back(
          {name, blocks([&](int q_tile) { return block_as(way, packed, q_tile, sequence); }),
           explanation});
    };
    using W = Way;
    const char* const late =
        "the starts are read one element late: sequence n begins at starts[n], and this is its "
        "neighbour";
    mistake("one-element-late", late, {.q_late = 1, .kv_late = 1});
    mistake("one-element-late", late, {.q_late = 1});
    mistake("one-element-late", late, {.kv_late = 1});
    mistake("one-element-late", late, {.q_start_is_end = true, .kv_start_is_end = true});
    mistake("one-element-late", late, {.q_start_is_end = true});
    mistake("one-element-late", late, {.kv_start_is_end = true});
    mistake("one-element-early",
            "the starts are read one element early; sequence n begins at starts[n]",
            {.q_late = -1, .kv_late = -1});
    const char* const is_end =
        "starts[n + 1] was taken as a length; it is where the sequence ends: minus starts[n]";
    mistake("end-for-length", is_end, {.q_length_is_end = true, .kv_length_is_end = true});
    mistake("end-for-length", is_end, {.q_length_is_end = true});
    mistake("end-for-length", is_end, {.kv_length_is_end = true});
    mistake("keys-from-q-starts", "K's rows were taken from Q's starts; K and V have their own",
            {.kv_from_q = true});
    mistake("keys-from-q-starts",
            "K begins where Q's sequence begins; K and V have their own starts",
            {.kv_start_from_q = true});
    mistake("queries-from-kv-starts", "Q's rows were taken from the starts of K and V",
            {.q_from_kv = true});
    mistake("queries-from-kv-starts", "Q begins where K's sequence begins; Q has its own starts",
            {.q_start_from_kv = true});
    mistake("diagonal-of-the-tensor",
            "the diagonal is that of all rows; each sequence has its own, len_kv - len_q",
            {.diagonal = W::kOfAll});
    mistake("diagonal-reversed", "the diagonal is len_kv - len_q", {.diagonal = W::kReversed});
    mistake("top-left-aligned", "the diagonal is 0; the last query stands at the last key",
            {.diagonal = W::kNone});
    const char* const starts =
        "the diagonal is a difference of rows in the tensors; queries and keys are counted in the "
        "sequence: len_kv - len_q";
    mistake("diagonal-in-the-tensor", starts, {.diagonal = W::kOfStarts});
    mistake("diagonal-in-the-tensor", starts, {.diagonal = W::kOfEnds});
    const char* const in_tensor =
        "first_row has q_start in it; rows are counted in the sequence, from 0";
    mistake("row-in-the-tensor", in_tensor, {.row = W::kCompared});
    mistake("row-in-the-tensor", in_tensor, {.row = W::kInTensor});
    mistake("tile-for-row", "q_tile was taken as a row; the tile begins at q_tile * block_q",
            {.row = W::kTile});
    mistake("blocks-exchanged", "queries were counted in tiles of block_kv",
            {.row = W::kTileOfKeys});
    for (const W::End whole : {W::kWhole, W::kAlwaysWhole}) {
      mistake("end-not-clipped",
              "the end is first_row + block_q; the sequence's last tile may be shorter, and after "
              "it comes the neighbour: no more than len_q",
              {.end = whole});
    }
    mistake("empty-tile-visited",
            "a tile that begins at len_q has no row: an empty sequence has no tile at all",
            {.end = W::kWholeLate});
    const char* const tensor =
        "the rows end where the tensor ends, so the neighbour's are computed too; they end at "
        "len_q";
    mistake("end-of-the-tensor", tensor, {.end = W::kTensor});
    mistake("end-of-the-tensor", tensor, {.end = W::kNeighbours});
    mistake("no-keys-no-block",
            "a sequence that has queries and no key was left out; its output, 0, must be written",
            {.without_keys = false});
    mistake("kv-tiles-rounded-down", "the last keys are lost: round the tiles up",
            {.tiles = W::kDown});
    mistake("one-tile-too-many", "len / block + 1 is one tile too many if nothing is left over",
            {.tiles = W::kOneMore});
    mistake("tile-of-no-keys",
            "(len - 1) / block + 1 is 1 for a length of 0, as -1 / block is 0; that sequence has "
            "no tile",
            {.tiles = W::kAtLeastOne});
    mistake("kv-tiles-of-the-tensor",
            "these are the tiles of all keys in the tensor; the sequence has its own len_kv",
            {.tiles = W::kTotal});
    const char* const touched =
        "the tiles were counted in the tensor, where the sequence may begin inside one; they are "
        "counted in the sequence, from its first key: len_kv / block_kv, rounded up";
    mistake("kv-tiles-in-the-tensor", touched, {.tiles = W::kTouched});
    mistake("kv-tiles-in-the-tensor", touched, {.tiles = W::kToItsEnd});
    mistake("kv-tiles-in-the-tensor", touched, {.tiles = W::kBetweenTiles});
    mistake("kv-tiles-of-queries", "the tiles of keys were counted by len_q",
            {.tiles = W::kOfQueries});
    mistake("kv-tiles-by-block-q", "the tiles of keys were counted in block_q",
            {.tiles = W::kBlocksOfQueries});
    exercise::check_output(
        {"sequence " + std::to_string(sequence) + ", tile",
         8,
         0,
         {"q_start", "kv_start", "len_q", "len_kv", "diagonal", "first_row", "end_row",
          "kv_tiles"}},
        blocks([&](int q_tile) { return block_of(packed, BLOCK_Q, BLOCK_KV, q_tile, sequence); }),
        blocks([&](int q_tile) { return block_as(Way{}, packed, q_tile, sequence); }), mistakes);
  }
}

static void check_longest(const std::vector<int>& lengths) {
  std::vector<int> kv_lengths;
  for (const int length : lengths) kv_lengths.push_back(25 - length);
  const Starts q(lengths, 30), kv(kv_lengths, 10);
  const Packed packed{q.data(), kv.data(), static_cast<int>(lengths.size())};
  const auto up = [](int rows) {
    return Numbers{static_cast<double>((rows + BLOCK_Q - 1) / BLOCK_Q)};
  };
  int sum = 0, total = 0;
  for (const int length : lengths) sum += (length + BLOCK_Q - 1) / BLOCK_Q, total += length;
  const std::vector<int> but_last(lengths.begin(), lengths.end() - 1);
  const std::vector<int> but_first(lengths.begin() + 1, lengths.end());
  const auto longest_in = [&](const std::vector<int>& some) {
    return up(some.empty() ? 0 : longest_of(some));
  };
  const int longest = longest_of(lengths);
  exercise::check_output(
      {"tiles of the longest", 0, 0}, {static_cast<double>(tiles_of_longest(packed, BLOCK_Q))},
      up(longest),
      {{"tiles-of-all-rows", up(total),
        "these are the tiles of all rows of the tensor: right, and most blocks have nothing to do; "
        "the longest sequence tells"},
       {"tiles-added-up",
        {static_cast<double>(sum)},
        "the tiles of all sequences were added; the grid has a dimension for the sequences"},
       {"longest-rounded-down",
        {static_cast<double>(longest / BLOCK_Q)},
        "rounded down, so the last queries of the longest sequence get no block"},
       {"grid-one-too-many",
        {static_cast<double>(longest / BLOCK_Q + 1)},
        "longest / block_q + 1 is one tile too many if nothing is left over"},
       {"rows-for-tiles",
        {static_cast<double>(longest)},
        "this is how many rows the longest has; its tiles are rows / block_q, rounded up"},
       {"first-sequence-for-longest", up(lengths.front()),
        "this is the first sequence; look at all of them"},
       {"last-sequence-for-longest", up(lengths.back()),
        "this is the last sequence; look at all of them"},
       {"last-sequence-missed", longest_in(but_last),
        "the last sequence is not looked at; there are `sequences`, and one start more"},
       {"first-sequence-missed", longest_in(but_first),
        "the first sequence is not looked at; it is rows starts[0] to starts[1] - 1"},
       {"one-sequence-too-many", up(std::max(longest, 30)),
        "behind the last start there is none: the last sequence is sequences - 1"},
       {"longest-of-keys", longest_in(kv_lengths),
        "this is the longest in keys; the grid has tiles of queries: q_starts"},
       {"shortest-for-longest", up(*std::min_element(lengths.begin(), lengths.end())),
        "this is the shortest sequence"}});
}

TEST_CASE("grid: one sequence of 8") { check_longest({8}); }
TEST_CASE("grid: lengths 5, 0, 3") { check_longest({5, 0, 3}); }
TEST_CASE("grid: lengths 4, 1, 13") { check_longest({4, 1, 13}); }
TEST_CASE("grid: lengths 1, 12, 4, 7") { check_longest({1, 12, 4, 7}); }
TEST_CASE("blocks: one sequence, 5 queries, 9 keys") { check_blocks({5}, {9}); }
TEST_CASE("blocks: 8 and 4 queries, as many keys") { check_blocks({8, 4}, {8, 4}); }
TEST_CASE("blocks: 5, 6 and 3 queries; 7, 6 and 9 keys") { check_blocks({5, 6, 3}, {7, 6, 9}); }
TEST_CASE("blocks: 3, 0, 1 and 6 queries; 7, 2, 1 and 4 keys") {
  check_blocks({3, 0, 1, 6}, {7, 2, 1, 4});
}
TEST_CASE("blocks: 2, 1 and 5 queries; no key, 1 and 6 keys") {
  check_blocks({2, 1, 5}, {0, 1, 6});
}
