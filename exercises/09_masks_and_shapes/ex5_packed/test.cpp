#include <doctest/doctest.h>

#include <algorithm>
#include <packed.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Changes;
using exercise::Numbers;

constexpr int BLOCK_Q = 4, BLOCK_KV = 3;

// The starts of sequences of these lengths. In memory other numbers come before and after them.
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

static const exercise::Table MISTAKES(R"(
one-element-late: {,q-late=1 }kv-late=1; q-late=1; {,q-start-is-end }kv-start-is-end; q-start-is-end
  the starts are read one element late: sequence n begins at starts[n], and this is its neighbour
one-element-early: q-late=-1 kv-late=-1
  the starts are read one element early. Sequence n begins at starts[n]
end-for-length: {,q-length-is-end }kv-length-is-end; q-length-is-end
  starts[n + 1] was taken as a length. It is where the sequence ends, so subtract starts[n]
keys-from-q-starts: kv-from-q
  K's rows were taken from Q's starts. K and V have their own
keys-from-q-starts: kv-start-from-q
  K begins where Q's sequence begins. K and V have their own starts
queries-from-kv-starts: q-from-kv
  Q's rows were taken from the starts of K and V
queries-from-kv-starts: q-start-from-kv
  Q begins where K's sequence begins. Q has its own starts
diagonal-of-the-tensor
  the diagonal is that of all rows. Each sequence has its own, len_kv - len_q
diagonal-reversed
  the diagonal is len_kv - len_q
top-left-aligned
  the diagonal is 0. The last query is at the last key: len_kv - len_q
diagonal-in-the-tensor: of-starts; of-ends
  the diagonal is a difference of rows in the tensors. Queries and keys are counted in the sequence:
  len_kv - len_q
row-in-the-tensor: compared; in-tensor
  first_row has q_start in it. Rows are counted in the sequence, from 0
tile-for-row
  q_tile was taken as a row. The tile begins at q_tile * block_q
blocks-exchanged
  queries were counted in tiles of block_kv
end-not-clipped: whole; always-whole
  the end is first_row + block_q. The sequence's last tile may be shorter, and after it comes the
  neighbour: no more than len_q
empty-tile-visited
  a tile that begins at len_q has no row: an empty sequence has no tile at all
end-of-the-tensor: tensor; neighbours
  the rows end where the tensor ends, so the neighbour's are computed too. They should end at len_q
no-keys-no-block
  a sequence that has queries and no key was left out. Its output, 0, must be written
kv-tiles-rounded-down
  the last keys are lost: round the tiles up
one-tile-too-many
  len / block + 1 is one tile too many if nothing is left over
tile-of-no-keys
  (len - 1) / block + 1 is 1 for a length of 0, as -1 / block is 0. That sequence has no tile
kv-tiles-of-the-tensor
  these are the tiles of all keys in the tensor. The sequence has its own len_kv
kv-tiles-in-the-tensor: touched; to-its-end; between-tiles
  the tiles were counted in the tensor, where the sequence may begin inside one. They have to be
  counted in the sequence, from its first key: len_kv / block_kv, rounded up
kv-tiles-of-queries
  the tiles of keys were counted by len_q
kv-tiles-by-block-q
  the tiles of keys were counted in block_q
)");

// The right block_of, and each mistake as a change to it.
static Block block_as(const Changes& is, const Packed& p, int q_tile, int sequence) {
  const int* const q =
      (is("q-from-kv") ? p.kv_starts : p.q_starts) + sequence + is.integer("q-late", 0);
  const int* const kv =
      (is("kv-from-q") ? p.q_starts : p.kv_starts) + sequence + is.integer("kv-late", 0);
  const int total_q = p.q_starts[p.sequences], total_kv = p.kv_starts[p.sequences];
  Block b{};
  b.q_start = is("q-start-from-kv") ? kv[0] : q[0];
  b.kv_start = is("kv-start-from-q") ? q[0] : kv[0];
  b.len_q = is("q-length-is-end") ? q[1] : q[1] - b.q_start;
  b.len_kv = is("kv-length-is-end") ? kv[1] : kv[1] - b.kv_start;
  b.diagonal = is("diagonal-of-the-tensor") ? total_kv - total_q
               : is("diagonal-reversed")    ? b.len_q - b.len_kv
               : is("top-left-aligned")     ? 0
               : is("of-starts")            ? kv[0] - q[0]
               : is("of-ends")              ? kv[1] - q[1]
                                            : b.len_kv - b.len_q;
  if (is("q-start-is-end")) b.q_start = q[1];
  if (is("kv-start-is-end")) b.kv_start = kv[1];
  if (is("no-keys-no-block") && b.len_kv <= 0) return {};
  const bool in_tensor = is("compared") || is("in-tensor");
  b.first_row = is("tile-for-row") ? q_tile
                                   : q_tile * (is("blocks-exchanged") ? BLOCK_KV : BLOCK_Q) +
                                         (in_tensor ? b.q_start : 0);
  const int behind = b.first_row + BLOCK_Q;
  const int end = is("in-tensor") ? b.q_start + b.len_q : b.len_q;
  const int of_tensor = std::min(behind, total_q - b.q_start);
  b.end_row = is("always-whole")         ? behind
              : is("whole")              ? (b.first_row < end ? behind : 0)
              : is("empty-tile-visited") ? (b.first_row <= end ? behind : 0)
              : is("tensor")             ? of_tensor
              : is("neighbours")         ? (b.first_row < end ? of_tensor : 0)
                                         : std::min(behind, end);
  const auto up = [](int length, int block) { return (length + block - 1) / block; };
  b.kv_tiles = is("kv-tiles-rounded-down")    ? b.len_kv / BLOCK_KV
               : is("one-tile-too-many")      ? b.len_kv / BLOCK_KV + 1
               : is("tile-of-no-keys")        ? (b.len_kv - 1) / BLOCK_KV + 1
               : is("kv-tiles-of-the-tensor") ? up(total_kv, BLOCK_KV)
               : is("kv-tiles-of-queries")    ? up(b.len_q, BLOCK_KV)
               : is("touched")       ? up(b.kv_start + b.len_kv, BLOCK_KV) - b.kv_start / BLOCK_KV
               : is("between-tiles") ? (b.kv_start + b.len_kv) / BLOCK_KV - b.kv_start / BLOCK_KV
               : is("to-its-end")    ? up(b.kv_start + b.len_kv, BLOCK_KV)
               : is("kv-tiles-by-block-q") ? up(b.len_kv, BLOCK_Q)
                                           : up(b.len_kv, BLOCK_KV);
  return b;
}

// All numbers are 0 for a block that has nothing to do.
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
      // One tile more than the longest has, because a block with nothing to do must detect that.
      for (int q_tile = 0; q_tile <= (longest_of(q_lengths) + BLOCK_Q - 1) / BLOCK_Q; ++q_tile) {
        const Numbers one = fields(block(q_tile));
        result.insert(result.end(), one.begin(), one.end());
      }
      return result;
    };
    const auto with = [&](const Changes& is) {
      return blocks([&](int q_tile) { return block_as(is, packed, q_tile, sequence); });
    };
    exercise::check_output(
        {"sequence " + std::to_string(sequence) + ", tile",
         8,
         0,
         {"q_start", "kv_start", "len_q", "len_kv", "diagonal", "first_row", "end_row",
          "kv_tiles"}},
        blocks([&](int q_tile) { return block_of(packed, BLOCK_Q, BLOCK_KV, q_tile, sequence); }),
        with({}), exercise::mistakes(MISTAKES, with));
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
        "these are the tiles of all rows of the tensor, which is right, but most blocks have "
        "nothing to do. The longest sequence decides"},
       {"tiles-added-up",
        {static_cast<double>(sum)},
        "the tiles of all sequences were added. The grid has a dimension for the sequences"},
       {"longest-rounded-down",
        {static_cast<double>(longest / BLOCK_Q)},
        "rounded down, so the last queries of the longest sequence get no block"},
       {"grid-one-too-many",
        {static_cast<double>(longest / BLOCK_Q + 1)},
        "longest / block_q + 1 is one tile too many if nothing is left over"},
       {"rows-for-tiles",
        {static_cast<double>(longest)},
        "this is the number of rows of the longest sequence. It has rows / block_q tiles, rounded "
        "up"},
       {"first-sequence-for-longest", up(lengths.front()),
        "this is the first sequence. Look at all of them"},
       {"last-sequence-for-longest", up(lengths.back()),
        "this is the last sequence. Look at all of them"},
       {"last-sequence-missed", longest_in(but_last),
        "the last sequence is not looked at. There are `sequences`, and one start more"},
       {"first-sequence-missed", longest_in(but_first),
        "the first sequence is not looked at. It is rows starts[0] to starts[1] - 1"},
       {"one-sequence-too-many", up(std::max(longest, 30)),
        "after the last start there is no sequence: the last one is sequences - 1"},
       {"longest-of-keys", longest_in(kv_lengths),
        "this is the sequence with the most keys, but the grid has tiles of queries, so use "
        "q_starts"},
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
