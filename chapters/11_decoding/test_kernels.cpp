// Compares the decoding kernels on the emulator with the CPU's decode in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "chapter.hpp"
#include "common/check.hpp"
#include "common/half.hpp"
#include "common/simt/buffer.hpp"
#include "common/simt/simt.hpp"
#include "cpu_decode.hpp"
#include "tree.hpp"

using namespace fa;

namespace {

struct Case {
  int64_t heads, kv_heads, len_q, dim;
  std::vector<int32_t> lengths;
  int64_t page_size = 0;  // 0: no pages
  DecodeSplits splits = {};
  int64_t prefix = 0;  // keys of the first pages, which all sequences share
  std::vector<std::vector<int64_t>> parents = {};  // of each sequence's new tokens; empty: a chain
};

constexpr float NOTHING = std::numeric_limits<float>::quiet_NaN();

// A case, with tensors for the kernel and for the reference. Memory without a key of a sequence is
// NaN, and some pages belong to no sequence.
struct Problem {
  Case c;
  int64_t batch, page_size, columns, pages, rows;
  std::vector<int32_t> table;
  simt::Buffer<bf16> Q, K, V, O;
  simt::Buffer<float> LSE, workspace, sinks;
  simt::Buffer<int> lengths, device_table;
  simt::Buffer<uint64_t> tree;
  std::vector<double> q, k, v, o, lse;

  explicit Problem(const Case& of)
      : c(of),
        batch(std::ssize(c.lengths)),
        page_size(c.page_size > 0 ? c.page_size : *std::ranges::max_element(c.lengths) + 5),
        columns(c.page_size > 0 ? *std::ranges::max_element(c.lengths) / page_size + 2 : 1),
        pages(c.page_size > 0 ? batch * columns + 3 : batch),
        rows(batch * c.heads * c.len_q),
        Q(rows * c.dim, "Q"),
        K(pages * c.kv_heads * page_size * c.dim, "K"),
        V(K.size(), "V"),
        O(Q.size(), "O"),
        LSE(rows, "LSE"),
        workspace(decode_workspace(rows, c.dim, c.splits) + 1, "workspace"),
        sinks(c.heads, "sinks"),
        lengths(batch, "lengths"),
        device_table(batch * columns, "table"),
        tree(batch * c.len_q, "tree"),
        q(Q.size()),
        k(K.size(), NOTHING),
        v(K.size(), NOTHING),
        o(Q.size()),
        lse(rows) {
    table.resize(batch);
    for (int64_t b = 0; b < batch; ++b) table[b] = static_cast<int32_t>(b);
    if (c.page_size > 0) {
      table = ch11::scattered_table(c.lengths, columns, page_size, pages, 7, c.prefix / page_size);
    }
    std::ranges::copy(table, device_table.begin());
    std::ranges::copy(c.lengths, lengths.begin());
    for (size_t b = 0; b < c.parents.size(); ++b)
      std::ranges::copy(ch11::tree_words(c.parents[b]), tree.begin() + b * c.len_q);
    std::mt19937 random(1);
    const auto draw = [&] {
      return to_float(to_bf16(static_cast<float>(random() % 4001) / 1000.0f - 2.0f));
    };
    for (double& x : q) x = draw();
    const ch11::Step<double> step = this->step();
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t head = 0; head < c.kv_heads; ++head)
        for (int64_t key = 0; key < c.lengths[b]; ++key)
          for (int64_t d = 0; d < c.dim; ++d) {
            const int64_t at = step.offset(b, head, key) + d;
            k[at] = draw(), v[at] = draw();
          }
    const auto round = [](const std::vector<double>& from, simt::Buffer<bf16>& to) {
      std::ranges::transform(from, to.begin(), [](double x) { return to_bf16(float(x)); });
    };
    round(q, Q), round(k, K), round(v, V);
    std::ranges::fill(O, to_bf16(NOTHING));
    std::ranges::fill(LSE, NOTHING);
    std::ranges::fill(workspace, NOTHING);
    ch11::Partials<double> partials;
    ch11::decode(step, 3, 16, partials, o.data(), lse.data());
    for (int64_t head = 0; head < c.heads; ++head) {
      sinks[head] = head == 1 ? -INFINITY : 1.5f + static_cast<float>(head);
    }
  }

  // The reference with the sinks, which are merged as a state of their own.
  void add_sinks() {
    for (int64_t row = 0; row < rows; ++row) {
      const double sink = sinks[row / c.len_q % c.heads], old = lse[row];
      if (std::isinf(sink)) continue;
      const double larger = std::max(sink, old);
      lse[row] = larger + std::log(std::exp(sink - larger) + std::exp(old - larger));
      for (int64_t d = 0; d < c.dim; ++d) o[row * c.dim + d] *= std::exp(old - lse[row]);
    }
  }

  ch11::Step<double> step() {
    return {.batch = batch,
            .heads = c.heads,
            .kv_heads = c.kv_heads,
            .len_q = c.len_q,
            .dim = c.dim,
            .pages = pages,
            .page_size = page_size,
            .columns = columns,
            .scale = 1 / std::sqrt(static_cast<double>(c.dim)),
            .Q = q.data(),
            .K_pages = k.data(),
            .V_pages = v.data(),
            .table = table.data(),
            .lengths = c.lengths.data(),
            .tree = c.parents.empty() ? nullptr : tree.data()};
  }

  DecodeArgs args() {
    const auto ref = [](void* data, int64_t a, int64_t b, int64_t rows, int64_t dim) {
      const std::array<int64_t, 4> shape{a, b, rows, dim};
      return TensorRef{data, Dtype::bf16, shape, contiguous_strides(shape)};
    };
    DecodeArgs args;
    args.q = ref(Q.data(), batch, c.heads, c.len_q, c.dim);
    args.o = ref(O.data(), batch, c.heads, c.len_q, c.dim);
    args.lse.data = LSE.data();
    args.k = ref(K.data(), pages, c.kv_heads, page_size, c.dim);
    args.v = ref(V.data(), pages, c.kv_heads, page_size, c.dim);
    args.lengths = lengths.data();
    args.table = c.page_size > 0 ? device_table.data() : nullptr;
    args.table_columns = columns;
    args.workspace = workspace.data();
    args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.dim)));
    args.prefix = c.prefix;
    args.splits = c.splits;
    args.tree = c.parents.empty() ? nullptr : tree.data();
    return args;
  }
};

void agrees(const Case& c, bool with_sinks, uint32_t breaks = 0) {
  CAPTURE(c.heads);
  CAPTURE(c.kv_heads);
  CAPTURE(c.len_q);
  CAPTURE(c.dim);
  CAPTURE(c.page_size);
  CAPTURE(c.splits.own);
  CAPTURE(c.splits.prefix);
  CAPTURE(c.prefix);
  CAPTURE(with_sinks);
  Problem p(c);
  DecodeArgs args = p.args();
  args.breaks = breaks;
  if (with_sinks) {
    args.sinks = p.sinks.data();
    p.add_sinks();
  }
  const simt::Report report = simt::run({}, [&] { emulator::ch11::build.decode(args); });
  for (const auto& hazard : report.hazards) MESSAGE(hazard.text);
  CHECK(report.hazards.empty());
  // P and O are rounded to bf16, each with an error of at most 2^-9 of |V| <= 2.
  const double bound = 2 * (2 + 1) * std::ldexp(1.0, -9);
  double error = 0, lse_error = 0;
  int64_t bad = 0;
  for (size_t i = 0; i < p.o.size(); ++i) {
    const double e = std::abs(to_float(p.O[i]) - p.o[i]);
    error = fa::max_keeping_nan(e, error);
    bad += !(e <= bound);
  }
  for (int64_t i = 0; i < p.rows; ++i) {
    const bool nothing = p.lse[i] == -std::numeric_limits<double>::infinity();
    const double e = nothing ? (p.LSE[i] == -std::numeric_limits<float>::infinity() ? 0.0 : 1.0)
                             : std::abs(p.LSE[i] - p.lse[i]);
    lse_error = fa::max_keeping_nan(e, lse_error);
    bad += !(e <= 1e-3);
  }
  CAPTURE(error);
  CAPTURE(lse_error);
  CHECK((bad == 0) == (breaks == 0));
}

void agrees(const Case& c) {
  for (const bool with_sinks : {false, true}) agrees(c, with_sinks);
}

using Decoding = Problem;  // fa has another Problem

}  // namespace

TEST_CASE("one query, any length, any number of splits") {
  for (const int splits : {1, 2, 3, 7})
    for (const int32_t length : {1, 15, 64, 65, 130, 240})
      agrees({2, 2, 1, 128, {length}, 0, {splits}});
}

TEST_CASE("heads that share K and V are rows of one tile") {
  agrees({8, 2, 1, 128, {100, 77}, 0, {2}});
  agrees({4, 1, 1, 64, {200}, 0, {3}});
  agrees({24, 1, 1, 64, {90}, 0, {1}});  // two tiles of rows
}

TEST_CASE("pages of any size, anywhere") {
  for (const int64_t page : {1, 3, 16, 48, 256})
    for (const int splits : {1, 4}) agrees({4, 2, 1, 128, {70, 3, 331}, page, {splits}});
}

TEST_CASE("several new queries are causal, from the bottom right") {
  agrees({2, 1, 4, 128, {100}, 0, {2}});
  agrees({6, 2, 3, 64, {65, 3}, 16, {3}});
  agrees({2, 2, 17, 64, {40}, 8, {1}});
}

TEST_CASE("rows that see nothing, sequences without a key") {
  agrees({2, 1, 4, 64, {2, 0, 9}, 4, {2}});
  agrees({1, 1, 1, 128, {0}, 0, {3}});
}

TEST_CASE("a prefix that all sequences share") {
  agrees({4, 2, 1, 128, {70, 64, 331}, 16, {1, 1}, 64});              // one has only the prefix
  agrees({8, 2, 1, 64, {200, 193, 300, 257, 192}, 64, {3, 2}, 192});  // two tiles of rows
  agrees({2, 1, 3, 128, {67, 90}, 1, {2, 7}, 64});                    // several queries each
  agrees({1, 1, 1, 40, {17}, 16, {4, 3}, 16});                        // empty splits
  agrees({6, 1, 4, 72, {260, 304, 280, 256 + 4}, 256, {1, 3}, 256});  // 96 rows
}

TEST_CASE("a tree of new tokens: any shape, splits, pages, groups, lengths") {
  const std::vector<int64_t> two_leaves = {-1, 0, 0, 1, 1}, no_root = {-1, -1, -1, 1, 0};
  std::vector<int64_t> binary(64, -1), chain(64, -1), star(64, -1);
  for (int64_t i = 1; i < 64; ++i) binary[i] = (i - 1) / 2, chain[i] = i - 1, star[i] = 0;
  agrees({2, 1, 5, 128, {100}, 0, {2}, 0, {two_leaves}});
  agrees({8, 2, 5, 64, {65, 5, 133}, 16, {3}, 0, {two_leaves, no_root, {-1, 0, 1, 2, 3}}});
  agrees(
      {4, 1, 5, 72, {64 + 2, 3, 40}, 7, {2}, 0, {two_leaves, no_root, no_root}});  // one too short
  agrees({2, 2, 64, 64, {64, 129, 200}, 8, {1}, 0, {binary, star, chain}});
  agrees({3, 1, 64, 128, {75}, 0, {7}, 0, {binary}});
  agrees({4, 2, 5, 128, {70, 69, 331}, 16, {2, 2}, 64, {two_leaves, no_root, two_leaves}});
}

TEST_CASE("a chain is the causal mask, bit for bit; a token on another branch changes no bit") {
  const auto run = [](const Case& c, auto change) {
    Decoding p(c);
    change(p);
    const simt::Report report = simt::run({}, [&] { emulator::ch11::build.decode(p.args()); });
    CHECK(report.hazards.empty());
    std::vector<float> bits(p.LSE.begin(), p.LSE.end());
    for (const bf16 o : p.O) bits.push_back(to_float(o));
    return bits;
  };
  const auto nothing = [](Decoding&) {};
  for (const int64_t tokens : {1, 5, 17, 64})
    for (const int64_t page_size : {0, 3, 64})
      for (const int splits : {1, 3}) {
        Case c{4, 2, tokens, 64, {static_cast<int32_t>(tokens), 131}, page_size, {splits}};
        const auto causal = run(c, nothing);
        c.parents.assign(2, std::vector<int64_t>(tokens));
        for (auto& parents : c.parents) std::iota(parents.begin(), parents.end(), -1);
        CHECK(run(c, nothing) == causal);
      }
  // Query 1 of 3 sees itself and token 0. Token 2 has the largest K and V there are.
  const Case c{2, 1, 4, 64, {90}, 0, {2}, 0, {{-1, 0, 0, 1}}};
  const auto before = run(c, nothing),
             after = run(c, [](Decoding&p) {
               for (int d = 0; d < 64; ++d) {
                 p.K[(90 - 2) * 64 + d] = to_bf16(d % 2 ? 3e38f : -3e38f),
                                     p.V[(90 - 2) * 64 + d] = to_bf16(3e38f);
               }
             });
  int64_t changed = 0;
  for (int64_t row = 0; row < 8; ++row) {
    if (row % 4 == 2) continue;
    changed += before[row] != after[row];
    for (int64_t d = 0; d < 64; ++d) changed += before[8 + row * 64 + d] != after[8 + row * 64 + d];
  }
  CHECK(changed == 0);
  CHECK(before[2] != after[2]);
}

TEST_CASE("what the kernels refuse: a tree of 65 tokens, and one without a causal mask") {
  const auto takes = [](int64_t tokens, bool causal, bool tree) {
    Decoding p({1, 1, tokens, 64, {100}, 0, {1}});
    DecodeArgs args = p.args();
    args.lse = {};
    args.causal = causal;
    args.tree = tree ? p.tree.data() : nullptr;
    check_arguments(ch11::KERNEL, args);
  };
  takes(65, true, false), takes(64, true, true), takes(64, false, false);
  CHECK_THROWS_WITH_AS(takes(65, true, true), doctest::Contains("a tree of 65 new tokens"),
                       InputError);
  CHECK_THROWS_WITH_AS(takes(64, false, true), doctest::Contains("and a causal mask"), InputError);
}

TEST_CASE("tree_words refuses more than 64 tokens, and parents that are not earlier tokens") {
  CHECK(ch11::tree_words(std::vector<int64_t>{-1, 0, 0, 2, -1}) ==
        std::vector<uint64_t>{0b1, 0b11, 0b101, 0b1101, 0b10000});
  CHECK(ch11::tree_words(std::vector<int64_t>(64, -1)).back() == uint64_t{1} << 63);
  for (const std::vector<int64_t>& parents :
       {std::vector<int64_t>(65, -1), {0}, {-1, 1}, {-1, 2, 0}, {-2}})
    CHECK_THROWS_AS(ch11::tree_words(parents), InputError);
}

TEST_CASE("break: tree-as-chain shows tokens of other branches") {
  agrees({2, 1, 5, 64, {20}, 0, {2}, 0, {{-1, 0, 0, 1, 1}}}, false, TREE_AS_CHAIN);
}

TEST_CASE("break: sink-in-every-split counts it once per part") {
  agrees({4, 2, 1, 64, {20}, 0, {3}}, true, SINK_IN_EVERY_SPLIT);
  agrees({4, 2, 1, 64, {20, 90}, 16, {1, 1}, 16}, true, SINK_IN_EVERY_SPLIT);
}

TEST_CASE("head sizes between") {
  for (const int64_t dim : {8, 40, 72, 96, 120}) agrees({4, 2, 1, dim, {99, 20}, 16, {2}});
}
