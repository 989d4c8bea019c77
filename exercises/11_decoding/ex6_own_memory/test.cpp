#include <doctest/doctest.h>

#include <algorithm>
#include <own_memory.hpp>
#include <string>
#include <vector>

#include "exercises/support/warp.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  Keys keys_of(int split, int splits, int length, int block_kv) const {
    const int count = is("last-tile-lost") ? length / block_kv : (length + block_kv - 1) / block_kv;
    const int keys = is("tiles-of-a-split-rounded-down") ? count / splits * block_kv
                     : is("keys-up")                     ? (length + splits - 1) / splits
                     : is("keys-down")                   ? length / splits
                     : is("one-tile-too-many")           ? (count / splits + 1) * block_kv
                     : is("tiles-for-keys")              ? (count + splits - 1) / splits
                                                         : (count + splits - 1) / splits * block_kv;
    int begin = split * keys;
    if (is("before-first") && split > 0) begin -= is.integer("before", 0);
    if (!is("begin-not-clipped")) begin = std::min(begin, length);
    int end = begin + keys + is.integer("behind", 0);
    if (!is("end-not-clipped")) end = std::min(end, length);
    if (is("last-takes-the-rest") && split == splits - 1) end = length;
    if (is("end-is-the-last-key")) --end;
    if (is("tiles-spread-evenly")) {  // the first count % splits have a tile more
      const auto tile = [&](int n) {
        return std::min(n * (count / splits) + std::min(n, count % splits), count) * block_kv;
      };
      begin = tile(split), end = std::min(tile(split + 1), length);
    }
    return {split > 0 && !is("before-first") ? begin - is.integer("before", 0) : begin, end};
  }
  int64_t lse_at(const Grid& g, int split, int batch, int head, int query) const {
    const int64_t s = is("split-forgotten") ? 0 : split, b = is("batch-forgotten") ? 0 : batch,
                  h = is("head-forgotten") ? 0 : head, q = is("query-forgotten") ? 0 : query;
    const int64_t heads = is("len-q-for-heads") ? g.len_q : g.heads;
    const int64_t batches = is("heads-for-batch")    ? g.heads
                            : is("splits-for-batch") ? g.splits
                                                     : g.batch;
    const int64_t at = is("split-last")           ? ((b * g.heads + h) * g.len_q + q) * g.splits + s
                       : is("batch-before-split") ? ((b * g.splits + s) * g.heads + h) * g.len_q + q
                       : is("queries-before-heads")
                           ? ((s * g.batch + b) * g.len_q + q) * g.heads + h
                           : ((s * batches + b) * heads + h) * g.len_q + q;
    return is("dim-in-the-wrong-one") ? at * g.dim : at;
  }
  int64_t o_at(const Grid& g, int split, int batch, int head, int query) const {
    const int64_t at = lse_at(g, split, batch, head, query);
    return is("dim-forgotten") || is("dim-in-the-wrong-one") ? at : at * g.dim;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  Keys keys_of(int split, int splits, int length, int block_kv) const {
    return ::keys_of(split, splits, length, block_kv);
  }
  int64_t lse_at(const Grid& grid, int split, int batch, int head, int query) const {
    return ::lse_at(grid, split, batch, head, query);
  }
  int64_t o_at(const Grid& grid, int split, int batch, int head, int query) const {
    return ::o_at(grid, split, batch, head, query);
  }
};

static const exercise::Table MISTAKES(R"(
tiles-of-a-split-rounded-down
  tiles / splits was rounded down, so the last tiles are in no split: up
rest-for-the-last-split: tiles-of-a-split-rounded-down last-takes-the-rest
  tiles / splits was rounded down, and the last split takes the rest: it may be much longer than
  the others, and all wait for it: up
keys-divided: keys-up; keys-down; keys-down last-takes-the-rest
  keys were divided, not tiles, so splits end inside a tile: whole tiles for each
one-tile-too-many
  tiles / splits + 1 is one tile too many if nothing is left over: round up
tiles-for-keys
  the number of tiles was taken for a number of keys: times block_kv
last-tile-lost
  the tiles were rounded down, so the last keys are in none: up
overlap-by-one-key: behind=1; before=1; before=1 before-first
  a key is in two splits, so it counts twice: [begin, end) has no key at end, and the next split
  begins there
end-is-the-last-key
  end is the last key. It must be the last key + 1, and with no keys end = begin
tiles-spread-evenly
  the tiles that are left over were given to the first splits, one each: a good way, and not the
  kernel's, whose splits have as many tiles each, rounded up, until there are none left
last-key-of-each-split-lost: behind=-1
  the last key of each split is missing: end is the last key + 1
begin-not-clipped
  a split past the end begins past it: clip begin to the length as well
end-not-clipped
  the last tile is taken to be full. Keys past the length do not exist
neither-clipped: begin-not-clipped end-not-clipped
  splits continue past the length: clip begin and end to it
split-forgotten
  all splits write to one place, and the last one wins: the split is the first dimension
batch-forgotten
  all sequences of the batch write to one place: the batch is the second dimension
head-forgotten
  all heads write to one place: heads are the third dimension
query-forgotten
  all queries write to one place: len_q is the last dimension
split-last
  the splits of a query lie side by side. The order [splits, batch, heads, len_q] has them farthest
  apart
batch-before-split
  the places are those of [batch, splits, heads, len_q]. Splits come first
queries-before-heads
  the places are those of [splits, batch, len_q, heads]. Heads come before len_q
wrong-stride: heads-for-batch; len-q-for-heads; splits-for-batch
  a dimension has the size of another one: [splits, batch, heads, len_q], and each number counts
  all of the smaller ones
dim-forgotten
  the O of queries are one number apart, and overlap. They are dim numbers apart
dim-in-the-wrong-one
  LSE are dim numbers apart and O one. It is the other way round
)");

// ---- the two kernels ----

using namespace emulator;

struct Pass {
  Grid grid;
  int length, block_kv;
  const float* V;             // [length]; every query sees every key
  float *O, *LSE;             // those of the splits
  float *O_all, *LSE_counts;  // [batch, heads, len_q, dim], [batch, heads, len_q]: sums
};

// Each thread has a query. In place of O it writes the sum of V over its keys, times d + 1, in
// place of LSE how many keys there were.
static void add_up_split(const Pass* p) {
  const Grid& g = p->grid;
  const int split = block_index() % g.splits, head = block_index() / g.splits % g.heads,
            batch = block_index() / g.splits / g.heads, query = thread_index();
  if (query >= g.len_q) return;
  const Keys keys = keys_of(split, g.splits, p->length, p->block_kv);
  float sum = 0;
  for (int key = keys.begin; key < std::min(keys.end, keys.begin + 1000); ++key)
    sum += load_global(p->V + key);
  for (int d = 0; d < g.dim; ++d)
    store_global(p->O + o_at(g, split, batch, head, query) + d, sum * static_cast<float>(d + 1));
  store_global(p->LSE + lse_at(g, split, batch, head, query),
               static_cast<float>(keys.end - keys.begin));
}

static void add_up_all(const Pass* p) {
  const Grid& g = p->grid;
  const int64_t rows = int64_t{g.batch} * g.heads * g.len_q;
  const int64_t row = int64_t{block_index()} * g.len_q + thread_index();
  if (thread_index() >= g.len_q) return;
  float count = 0;
  for (int split = 0; split < g.splits; ++split) count += load_global(p->LSE + split * rows + row);
  store_global(p->LSE_counts + row, count);
  for (int d = 0; d < g.dim; ++d) {
    float sum = 0;
    for (int split = 0; split < g.splits; ++split)
      sum += load_global(p->O + (split * rows + row) * g.dim + d);
    store_global(p->O_all + row * g.dim + d, sum);
  }
}

// Returns the hazards and the first wrong sum; empty if nothing is wrong.
static std::string run_kernels(const Grid& g, int length, int block_kv) {
  const size_t rows = size_t(g.batch) * g.heads * g.len_q;
  fa::simt::Buffer<float> V(length, "V"), O(rows * g.splits * g.dim, "partial O"),
      LSE(rows * g.splits, "partial LSE"), O_all(rows * g.dim, "O"), counts(rows, "LSE");
  for (int key = 0; key < length; ++key) V[key] = static_cast<float>(key + 1);
  for (auto* buffer : {&O, &LSE, &O_all, &counts}) std::fill(buffer->begin(), buffer->end(), NAN);
  const Pass pass{g, length, block_kv, V.data(), O.data(), LSE.data(), O_all.data(), counts.data()};
  const fa::simt::Report report = fa::simt::run({}, [&] {
    launch(add_up_split, g.splits * g.heads * g.batch, 32, 0, &pass);
    launch(add_up_all, g.heads * g.batch, 32, 0, &pass);
  });
  if (!report.hazards.empty()) return exercise::hazards(report);  // sums differ from run to run
  Numbers sums, expected;
  for (size_t row = 0; row < rows; ++row) {
    sums.push_back(counts[row]);
    expected.push_back(length);
    for (int d = 0; d < g.dim; ++d) {
      sums.push_back(O_all[row * g.dim + d]);
      expected.push_back(length * (length + 1) / 2.0 * (d + 1));
    }
  }
  std::vector<std::string> labels = {"keys"};
  for (int d = 0; d < g.dim; ++d) labels.push_back("O" + std::to_string(d));
  return exercise::difference({"sum, row", g.dim + 1, 0, labels}, sums, expected);
}

// ---- what is compared ----

static std::string words(const Numbers& numbers) {
  std::string all;
  for (const double number : numbers) all += exercise::text(number) + " ";
  return all;
}

template <class Any>
static Numbers keys_of_all(const Any& way, int splits, int length, int block_kv) {
  Numbers result;
  for (int split = 0; split < splits; ++split) {
    const Keys keys = way.keys_of(split, splits, length, block_kv);
    result.insert(result.end(), {double(keys.begin), double(keys.end)});
  }
  return result;
}

template <class Any>
static Numbers places_of_all(const Any& way, const Grid& grid) {
  Numbers result;
  for (int split = 0; split < grid.splits; ++split)
    for (int batch = 0; batch < grid.batch; ++batch)
      for (int head = 0; head < grid.heads; ++head)
        for (int query = 0; query < grid.len_q; ++query)
          result.insert(result.end(), {double(way.lse_at(grid, split, batch, head, query)),
                                       double(way.o_at(grid, split, batch, head, query))});
  return result;
}

static void check_keys(int splits, int length, int block_kv) {
  exercise::check_output<Way, Answer>(
      {"split", 2, 0, {"begin", "end"}}, MISTAKES,
      [&](const auto& way) { return keys_of_all(way, splits, length, block_kv); });
}

// The sums are left out if there is a hazard, because they may differ from run to run.
static void check_places(const Grid& grid, int length, int block_kv) {
  const auto shown = [&](const auto& way) {
    return words(places_of_all(way, grid)) + words(keys_of_all(way, grid.splits, length, block_kv));
  };
  const auto looks = exercise::looks<Way>(MISTAKES, shown);
  std::string message = run_kernels(grid, length, block_kv);
  while (!message.empty() && message.back() == '\n') message.pop_back();
  const std::string places = exercise::difference(
      {"place", 2, 0, {"LSE", "O"}}, places_of_all(Answer{}, grid), places_of_all(Way{}, grid));
  if (!message.empty() && !places.empty()) message += "\n";
  message += places;
  exercise::check_shown(message.empty(), message, shown(Answer{}), looks);
}

TEST_CASE("keys: the README's 23 in tiles of 4, 4 splits") { check_keys(4, 23, 4); }
TEST_CASE("keys: 1 split") { check_keys(1, 23, 4); }
TEST_CASE("keys: 24 in tiles of 4, 3 splits: nothing is left over") { check_keys(3, 24, 4); }
TEST_CASE("keys: 100 in tiles of 16, 5 splits") { check_keys(5, 100, 16); }
TEST_CASE("keys: 9 in tiles of 4, 7 splits: most have none") { check_keys(7, 9, 4); }
TEST_CASE("keys: none, 3 splits") { check_keys(3, 0, 4); }
TEST_CASE("kernels: the README's 2 splits, 1 sequence, 2 heads, 3 queries") {
  check_places({2, 1, 2, 3, 2}, 16, 4);
}
TEST_CASE("kernels: 4 splits, 2 sequences, 3 heads, 5 queries") {
  check_places({4, 2, 3, 5, 3}, 23, 4);
}
TEST_CASE("kernels: 3 splits, 4 sequences, 2 heads, 1 query") {
  check_places({3, 4, 2, 1, 4}, 5, 4);
}
