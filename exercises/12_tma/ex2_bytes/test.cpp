#include <doctest/doctest.h>

#include <bytes.hpp>
#include <set>

#include "exercises/support/warp.hpp"

using namespace emulator;

// The three functions; a mistake changes some of them.
using Formula = int (*)(const Tiles& tiles, int tile);
enum Function { kQ, kK, kKV };
struct Functions {
  Formula f[3];
};
static int left(int len, int block, int tile) { return std::min(block, len - tile * block); }

const Functions kRight = {{[](const Tiles& x, int) { return x.block_q * x.head_dim * 2; },
                           [](const Tiles& x, int) { return x.block_kv * x.head_dim * 2; },
                           [](const Tiles& x, int) { return 2 * x.block_kv * x.head_dim * 2; }}};

struct Wrong {
  const char *name, *explanation;
  std::vector<Formula> formulas[3];
};
const std::vector<Wrong> kWrong = {
    {"v-forgotten",
     "the mbarrier of K and V was told of one of them; both copies report their bytes there",
     {{}, {}, {[](const Tiles& x, int) { return x.block_kv * x.head_dim * 2; }}}},
    {"v-counted-with-k",
     "the mbarrier of K was told of V too, whose bytes go to another",
     {{}, {[](const Tiles& x, int) { return 2 * x.block_kv * x.head_dim * 2; }}, {}}},
    {"rows-that-exist",
     "these are the bytes that exist; the engine writes the whole box, zeros too, and counts them",
     {{[](const Tiles& x, int t) { return left(x.len_q, x.block_q, t) * x.head_dim * 2; }},
      {[](const Tiles& x, int t) { return left(x.len_kv, x.block_kv, t) * x.head_dim * 2; }},
      {[](const Tiles& x, int t) { return 2 * left(x.len_kv, x.block_kv, t) * x.head_dim * 2; },
       [](const Tiles& x, int t) {
         return (x.block_kv + left(x.len_kv, x.block_kv, t)) * x.head_dim * 2;
       }}}},
    {"rows-to-the-end",
     "these are the bytes of all rows from the tile's first to the last of the head; a copy brings "
     "one tile of them",
     {{[](const Tiles& x, int t) { return (x.len_q - t * x.block_q) * x.head_dim * 2; }},
      {[](const Tiles& x, int t) { return (x.len_kv - t * x.block_kv) * x.head_dim * 2; }},
      {[](const Tiles& x, int t) { return 2 * (x.len_kv - t * x.block_kv) * x.head_dim * 2; }}}},
    {"all-tiles-so-far",
     "these are the bytes of this tile and all before it; a phase counts its own alone",
     {{[](const Tiles& x, int t) { return (t + 1) * x.block_q * x.head_dim * 2; }},
      {[](const Tiles& x, int t) { return (t + 1) * x.block_kv * x.head_dim * 2; }},
      {[](const Tiles& x, int t) { return (t + 1) * 2 * x.block_kv * x.head_dim * 2; }}}},
    {"two-panels-always",
     "these are the bytes of 128 columns, two panels; a head of 64 columns has one",
     {{[](const Tiles& x, int) { return x.block_q * 256; }},
      {[](const Tiles& x, int) { return x.block_kv * 256; }},
      {[](const Tiles& x, int) { return 2 * x.block_kv * 256; }}}},
    {"panels-counted-twice",
     "all columns were multiplied by the number of panels; head_dim columns are all panels",
     {{[](const Tiles& x, int) { return x.block_q * x.head_dim * 2 * (x.head_dim / 64); }},
      {[](const Tiles& x, int) { return x.block_kv * x.head_dim * 2 * (x.head_dim / 64); }},
      {[](const Tiles& x, int) { return 2 * x.block_kv * x.head_dim * 2 * (x.head_dim / 64); }}}},
    {"elements-for-bytes",
     "these are elements; an mbarrier counts bytes, and a bf16 has two",
     {{[](const Tiles& x, int) { return x.block_q * x.head_dim; }},
      {[](const Tiles& x, int) { return x.block_kv * x.head_dim; }},
      {[](const Tiles& x, int) { return 2 * x.block_kv * x.head_dim; }}}},
    {"four-bytes-each",
     "an element was taken for four bytes; a bf16 has two",
     {{[](const Tiles& x, int) { return x.block_q * x.head_dim * 4; }},
      {[](const Tiles& x, int) { return x.block_kv * x.head_dim * 4; }},
      {[](const Tiles& x, int) { return 2 * x.block_kv * x.head_dim * 4; }}}},
    {"one-panel",
     "these are the bytes of one panel, 64 columns; the box has all head_dim / 64 of them",
     {{[](const Tiles& x, int) { return x.block_q * 128; }},
      {[](const Tiles& x, int) { return x.block_kv * 128; }},
      {[](const Tiles& x, int) { return 2 * x.block_kv * 128; }}}},
    {"heights-exchanged",
     "a tile of Q has block_q rows, one of K or V has block_kv",
     {{[](const Tiles& x, int) { return x.block_kv * x.head_dim * 2; }},
      {[](const Tiles& x, int) { return x.block_q * x.head_dim * 2; }},
      {[](const Tiles& x, int) { return 2 * x.block_q * x.head_dim * 2; },
       [](const Tiles& x, int) { return (x.block_q + x.block_kv) * x.head_dim * 2; }}}},
    {"share-of-a-thread",
     "these are the bytes that each thread would copy; one thread issues the copy of the box, and "
     "expects all of its bytes",
     {{[](const Tiles& x, int) { return x.block_q * x.head_dim * 2 / x.threads; }},
      {[](const Tiles& x, int) { return x.block_kv * x.head_dim * 2 / x.threads; }},
      {[](const Tiles& x, int) { return 2 * x.block_kv * x.head_dim * 2 / x.threads; }}}},
    {"whole-head",
     "these are the bytes of a whole head; a copy brings one tile of it",
     {{[](const Tiles& x, int) { return x.len_q * x.head_dim * 2; }},
      {[](const Tiles& x, int) { return x.len_kv * x.head_dim * 2; }},
      {[](const Tiles& x, int) { return 2 * x.len_kv * x.head_dim * 2; }}}},
    {"columns-forgotten",
     "these are the rows, two bytes each; a row has head_dim elements",
     {{[](const Tiles& x, int) { return x.block_q * 2; }},
      {[](const Tiles& x, int) { return x.block_kv * 2; }},
      {[](const Tiles& x, int) { return 2 * x.block_kv * 2; }}}},
};

const Tiles kTiles[] = {{16, 8, 64, 32, 16, 32},
                        {16, 8, 64, 21, 11, 32},
                        {16, 24, 128, 48, 72, 64},
                        {32, 24, 128, 47, 49, 64}};

static int num_tiles(const Tiles& x) {
  return std::min(ceil_div(x.len_q, x.block_q), ceil_div(x.len_kv, x.block_kv));
}

static exercise::Numbers numbers(const Tiles& x, const Functions& functions) {
  exercise::Numbers all;
  for (int tile = 0; tile < num_tiles(x); ++tile)
    for (const Formula f : functions.f) all.push_back(f(x, tile));
  return all;
}

// Each mistake in each choice of the functions, once.
struct Variant {
  const Wrong* wrong;
  Functions functions;
};

static std::vector<Variant> variants() {
  std::vector<Variant> all;
  std::set<exercise::Numbers> known;
  const auto add = [&](const Wrong* wrong, const Functions& functions) {
    exercise::Numbers sum;
    for (const Tiles& x : kTiles)
      for (const double number : numbers(x, functions)) sum.push_back(number);
    if (known.insert(sum).second && wrong) all.push_back({wrong, functions});
  };
  add(nullptr, kRight);
  for (const Wrong& wrong : kWrong) {
    const auto options = [&](Function f) {
      std::vector<Formula> formulas = wrong.formulas[f];
      formulas.insert(formulas.begin(), kRight.f[f]);
      return formulas;
    };
    for (const Formula q : options(kQ))
      for (const Formula k : options(kK))
        for (const Formula kv : options(kKV)) add(&wrong, {{q, k, kv}});
  }
  return all;
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
  const Functions answer = {
      {[](const Tiles& tiles, int tile) { return static_cast<int>(q_bytes(tiles, tile)); },
       [](const Tiles& tiles, int tile) { return static_cast<int>(k_bytes(tiles, tile)); },
       [](const Tiles& tiles, int tile) { return static_cast<int>(kv_bytes(tiles, tile)); }}};
  std::string seen;
  for (int tile = 0; tile < num_tiles(x) && seen.empty(); ++tile)
    for (const Function f : {kQ, kK, kKV})
      if (seen.empty() && answer.f[f](x, tile) != kRight.f[f](x, tile))
        seen =
            "the first wrong one on the emulator:\n" + wait_for(x, f, tile, answer.f[f](x, tile));
  INFO(seen);
  std::vector<exercise::Mistake> mistakes;
  for (const Variant& variant : variants())
    mistakes.push_back(
        {variant.wrong->name, numbers(x, variant.functions), variant.wrong->explanation});
  exercise::check_output({"tile", 3, 0, {"q_bytes", "k_bytes", "kv_bytes"}}, numbers(x, answer),
                         numbers(x, kRight), mistakes);
}

TEST_CASE("64 columns, whole tiles") { check_bytes(kTiles[0]); }
TEST_CASE("64 columns, a ragged end") { check_bytes(kTiles[1]); }
TEST_CASE("128 columns, whole tiles") { check_bytes(kTiles[2]); }
TEST_CASE("128 columns, a ragged end") { check_bytes(kTiles[3]); }

// The numbers above are those that the copies bring; with any other the wait does not end.
TEST_CASE("the copies") {
  for (const Tiles& x : kTiles)
    for (int tile = 0; tile < num_tiles(x); ++tile)
      for (const Function f : {kQ, kK, kKV}) {
        const int right = kRight.f[f](x, tile);
        CHECK(wait_for(x, f, tile, right) == "");
        for (const Variant& variant : variants()) {
          const int wrong = variant.functions.f[f](x, tile);
          if (wrong == right) continue;
          CHECK(wait_for(x, f, tile, wrong).find("transaction_mismatch") != std::string::npos);
        }
      }
}
