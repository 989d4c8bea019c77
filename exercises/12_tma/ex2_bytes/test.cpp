#include <doctest/doctest.h>

#include <bytes.hpp>
#include <set>

#include "exercises/support/warp.hpp"

using namespace emulator;

// The right functions, and each mistake as a change to them. A function may be right although the
// others make the mistake.
struct Way {
  exercise::Changes is;

  // The bytes of `tile` of `len` rows, in tiles of `block` rows. `other`: the other tensor's block.
  int bytes(const Tiles& x, int block, int other, int len, int tile) const {
    const int rows = is("rows-that-exist")     ? std::min(block, len - tile * block)
                     : is("rows-to-the-end")   ? len - tile * block
                     : is("all-tiles-so-far")  ? (tile + 1) * block
                     : is("whole-head")        ? len
                     : is("heights-exchanged") ? other
                                               : block;
    const int columns = is("two-panels-always")      ? 128
                        : is("one-panel")            ? 64
                        : is("panels-counted-twice") ? x.head_dim * (x.head_dim / 64)
                        : is("columns-forgotten")    ? 1
                                                     : x.head_dim;
    const int size = is("elements-for-bytes") ? 1 : is("four-bytes-each") ? 4 : 2;
    return rows * columns * size;
  }
  int of_q(const Tiles& x, int tile) const {
    return bytes(x, x.block_q, x.block_kv, x.len_q, tile) /
           (is("share-of-a-thread") ? x.threads : 1);
  }
  int of_kv(const Tiles& x, int tile, int copies) const {
    return copies * bytes(x, x.block_kv, x.block_q, x.len_kv, tile) /
           (is("share-of-a-thread") ? x.threads : 1);
  }
  int q_bytes(const Tiles& x, int tile) const {
    return (is("q-right") ? Way{} : *this).of_q(x, tile);
  }
  int k_bytes(const Tiles& x, int tile) const {
    return (is("k-right") ? Way{} : *this).of_kv(x, tile, is("v-counted-with-k") ? 2 : 1);
  }
  int kv_bytes(const Tiles& x, int tile) const {
    if (is("kv-of-two")) return Way{}.of_kv(x, tile, 1) + of_kv(x, tile, 1);
    return (is("kv-right") ? Way{} : *this).of_kv(x, tile, is("v-forgotten") ? 1 : 2);
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int q_bytes(const Tiles& x, int tile) const { return ::q_bytes(x, tile); }
  int k_bytes(const Tiles& x, int tile) const { return ::k_bytes(x, tile); }
  int kv_bytes(const Tiles& x, int tile) const { return ::kv_bytes(x, tile); }
};

static const exercise::Table MISTAKES(R"(
$some = {,q-right,k-right,kv-right,q-right k-right,q-right kv-right,k-right kv-right}
v-forgotten
  the mbarrier of K and V was told of one of them. Both copies report their bytes there
v-counted-with-k
  the mbarrier of K was told of V too, whose bytes go to another
rows-that-exist: rows-that-exist $some; rows-that-exist kv-of-two {q-right,} {k-right,}
  these are the bytes that exist. The engine writes the whole box, zeros too, and counts them
rows-to-the-end: rows-to-the-end $some
  these are the bytes of all rows from the tile's first to the last of the head. A copy brings one
  tile of them
all-tiles-so-far: all-tiles-so-far $some
  these are the bytes of this tile and all before it. A phase counts its own alone
two-panels-always: two-panels-always $some
  these are the bytes of 128 columns, two panels. A head of 64 columns has one
panels-counted-twice: panels-counted-twice $some
  all columns were multiplied by the number of panels. head_dim columns are all panels
elements-for-bytes: elements-for-bytes {,q-right,k-right} {,kv-right}
  these are elements. An mbarrier counts bytes, and a bf16 has two
four-bytes-each: four-bytes-each {,q-right,kv-right} {,k-right}
  an element was taken for four bytes. A bf16 has two
one-panel: one-panel $some
  these are the bytes of one panel, 64 columns. The box has all head_dim / 64 of them
heights-exchanged: heights-exchanged $some; heights-exchanged kv-of-two {q-right,} {k-right,}
  a tile of Q has block_q rows, one of K or V has block_kv
share-of-a-thread: share-of-a-thread $some
  these are the bytes that each thread would copy. One thread issues the copy of the box, and
  expects all of its bytes
whole-head: whole-head $some
  these are the bytes of a whole head. A copy brings one tile of it
columns-forgotten: columns-forgotten $some
  these are the rows, two bytes each. A row has head_dim elements
)");

const Tiles kTiles[] = {{16, 8, 64, 32, 16, 32},
                        {16, 8, 64, 21, 11, 32},
                        {16, 24, 128, 48, 72, 64},
                        {32, 24, 128, 47, 49, 64}};

static int num_tiles(const Tiles& x) {
  return std::min(ceil_div(x.len_q, x.block_q), ceil_div(x.len_kv, x.block_kv));
}

enum Function { kQ, kK, kKV };
template <class Functions>
static int bytes_of(Function function, const Functions& f, const Tiles& x, int tile) {
  return function == kQ   ? f.q_bytes(x, tile)
         : function == kK ? f.k_bytes(x, tile)
                          : f.kv_bytes(x, tile);
}

// One tile, or two, come to an mbarrier that expects `bytes`. Returns what the emulator finds.
static std::string wait_for(const Tiles& x, Function function, int tile, int bytes) {
  const int len = function == kQ ? x.len_q : x.len_kv;
  const int rows = function == kQ ? x.block_q : x.block_kv;
  if (bytes < 0 || bytes > 1 << 19) return "not a number of bytes that an mbarrier can count";
  fa::simt::Buffer<bf16> tensor(static_cast<size_t>(len) * x.head_dim, "tensor");
  const TensorMap map = make_tensor_map(tensor.data(), {64, len, x.head_dim / 64, 1},
                                        {x.head_dim * 2, 128, int64_t{len} * x.head_dim * 2},
                                        {64, rows, x.head_dim / 64, 1}, Swizzle::bytes_128);
  const uint32_t box = map.box.box_bytes();
  return exercise::hazards(exercise::run_block(32, 2 * box + 8, [&] {
    const uint32_t full = dynamic_smem() + 2 * box;
    if (thread_index() == 0) {
      mbarrier_init(full, 1);
      fence_mbarrier_init();
      mbarrier_arrive_expect_tx(full, bytes);
      for (int copy = 0; copy < (function == kKV ? 2 : 1); ++copy)
        tma_load_4d(dynamic_smem() + copy * box, map, 0, tile * rows, 0, 0, full);
    }
    block_sync();
    mbarrier_wait(full, 0);
  }));
}

static void check_bytes(const Tiles& x) {
  std::string seen;
  for (int tile = 0; tile < num_tiles(x); ++tile)
    for (const Function f : {kQ, kK, kKV})
      if (const int got = bytes_of(f, Answer{}, x, tile);
          seen.empty() && got != bytes_of(f, Way{}, x, tile))
        seen = "the first wrong one on the emulator:\n" + wait_for(x, f, tile, got);
  INFO(seen);
  exercise::check_output<Way, Answer>({"tile", 3, 0, {"q_bytes", "k_bytes", "kv_bytes"}}, MISTAKES,
                                      [&](const auto& functions) {
                                        exercise::Numbers all;
                                        for (int tile = 0; tile < num_tiles(x); ++tile)
                                          for (const Function f : {kQ, kK, kKV})
                                            all.push_back(bytes_of(f, functions, x, tile));
                                        return all;
                                      });
}

TEST_CASE("64 columns, whole tiles") { check_bytes(kTiles[0]); }
TEST_CASE("64 columns, a ragged end") { check_bytes(kTiles[1]); }
TEST_CASE("128 columns, whole tiles") { check_bytes(kTiles[2]); }
TEST_CASE("128 columns, a ragged end") { check_bytes(kTiles[3]); }

// The numbers above are those that the copies bring, because with any other the wait does not end.
TEST_CASE("the copies") {
  for (const Tiles& x : kTiles)
    for (int tile = 0; tile < num_tiles(x); ++tile)
      for (const Function f : {kQ, kK, kKV}) {
        const int right = bytes_of(f, Way{}, x, tile);
        CHECK(wait_for(x, f, tile, right) == "");
        std::set<int> wrong;
        for (const exercise::Row& row : MISTAKES)
          wrong.insert(bytes_of(f, Way{row.changes}, x, tile));
        wrong.erase(right);
        for (const int bytes : wrong)
          CHECK(wait_for(x, f, tile, bytes).find("transaction_mismatch") != std::string::npos);
      }
}
