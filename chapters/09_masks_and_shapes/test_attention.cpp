#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "chapter.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const Kernel& KERNEL = ch09::KERNEL;

FORWARD_TESTS(KERNEL)

TEST_CASE("returns a constant V exactly") { returns_a_constant_v(KERNEL); }

TEST_CASE("every barrier and every wait is needed, and its absence is reported") {
  every_synchronization_is_needed(KERNEL, 5);
}

TEST_CASE("without a mask it counts what chapter 08 counts, and a shuffle for each warp") {
  const simt::Counters now = count(KERNEL), before = count(ch08::KERNEL);
  CHECK(now.shuffle_instructions == before.shuffle_instructions + 4);
  for (const simt::CounterField& field : simt::kCounterFields) {
    if (field.value == &simt::Counters::shuffle_instructions) continue;
    INFO(field.name);
    CHECK(now.*field.value == before.*field.value);
  }
}

Answer answer(const Problem& problem, uint32_t breaks = 0, bool by_length = false) {
  return fa::test::answer(KERNEL, problem, {.breaks = breaks, .by_length = by_length});
}

void check_agrees(const Problem& problem) { fa::test::check_agrees(KERNEL, problem); }

TEST_CASE("causal: ragged both ways, one query, more queries than keys") {
  agrees_under_causal_masks(KERNEL);
}

TEST_CASE("windows: each side, both, none of the keys, all of them") { agrees_in_windows(KERNEL); }

TEST_CASE("heads of K and V that several heads of Q share, in both layouts") {
  agrees_with_shared_heads(KERNEL);
}

TEST_CASE("head sizes: every multiple of 8 up to 256, others are refused") {
  for (int64_t dim = 8; dim <= 256; dim += 8) check_agrees(causal({1, 1, 40, 70, dim}));
  for (const int64_t dim : {1, 60, 254, 264}) {
    const Problem problem = random_problem({1, 1, 4, 4, dim}, Dtype::bf16, 1);
    std::vector<float> o(problem.shape.q_elements());
    CHECK_THROWS_AS(forward_on_emulator(KERNEL, problem, o), InputError);
  }
}

TEST_CASE("fp16, softcap and ALiBi, alone and together") {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const int64_t dim : {64, 128, 256}) {
      for (const int which : {0, 1, 2, 3}) {
        Problem problem = random_problem({1, 3, 140, 200, dim}, dtype, 5);
        if (which & 1) problem.softcap = 1.5;
        problem.alibi = (which & 2) != 0;
        problem.causal = dim == 64;
        check_agrees(problem);
      }
    }
  }
}

TEST_CASE("packed sequences: lengths 0 and 1, and all masks") {
  agrees_on_packed_sequences(KERNEL);
  Problem problem = packed({1, 0, 130, 40, 5}, {7, 30, 70, 0, 140}, 64);
  problem.causal = true;
  problem.window_left = 20;
  problem.softcap = 2;
  check_agrees(problem);
}

TEST_CASE("no row reads the next sequence, not even a NaN in it") {
  no_row_reads_its_neighbour(KERNEL);
}

TEST_CASE("a row that sees nothing gives 0 and an LSE of -inf; a NaN stays a NaN") {
  a_row_may_see_nothing(KERNEL);
}

TEST_CASE("sinks: under all masks, in fp16, with modifiers, for every head size") {
  agrees_with_sinks(KERNEL);
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const int64_t dim : {40, 64, 128, 256}) {
      Problem problem = random_problem({1, 3, 140, 200, dim}, dtype, 5);
      problem.sinks = random_sinks(problem, 5);
      check_agrees(problem);
      problem.alibi = true;
      problem.softcap = 20;
      check_agrees(problem);
    }
  }
}

TEST_CASE("sinks of -inf change no bit, large ones take all, a NaN stays in its head") {
  sinks_may_be_none_or_large(KERNEL);
}

// Counts tiles that some query sees, and those of them that not all queries see whole, by testing
// every pair of a query and a key.
struct Tiles {
  int64_t visited = 0, masked = 0, skipped = 0;
  bool operator==(const Tiles&) const = default;
};
Tiles by_hand(const Problem& problem, int64_t block_q, int64_t block_kv) {
  Tiles tiles;
  const Shape& s = problem.shape;
  for (int64_t q = 0; q < s.q; q += block_q) {
    for (int64_t kv = 0; kv < s.kv; kv += block_kv) {
      bool some = false, all = kv + block_kv <= s.kv;
      for (int64_t i = q; i < std::min(q + block_q, s.q); ++i) {
        const Keys keys = problem.keys_of(0, i);
        for (int64_t j = kv; j < std::min(kv + block_kv, s.kv); ++j) {
          const bool sees = j >= keys.begin && j < keys.end;
          some |= sees;
          all &= sees;
        }
      }
      ++(some ? tiles.visited : tiles.skipped);
      tiles.masked += some && !all;
    }
  }
  return tiles;
}
Tiles counted(const Problem& problem, uint32_t breaks = 0) {
  Tiles tiles;
  for (const simt::TileRow& row : answer(problem, breaks).report.tiles) {
    tiles.visited += static_cast<int64_t>(row.visits.size());
    tiles.skipped += row.columns - static_cast<int64_t>(row.visits.size());
    for (const simt::TileVisit& visit : row.visits) tiles.masked += visit.masked;
  }
  return tiles;
}

TEST_CASE("only tiles with visible keys are visited, and only those at the edges are masked") {
  std::mt19937 random(7);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int64_t>(random() % static_cast<unsigned>(high - low + 1));
  };
  CHECK(counted(causal({1, 1, 512, 512, 128})) == Tiles{20, 8, 12});
  for (int i = 0; i < 40; ++i) {
    const int64_t dim = pick(1, 2) * 64;
    Problem problem = window({1, 1, pick(1, 500), pick(1, 500), dim}, pick(-1, 200), pick(-1, 200));
    INFO("shape ", to_string(problem.shape), ", window ", problem.window_left, ",",
         problem.window_right);
    CHECK(counted(problem) == by_hand(problem, 128, 8192 / dim));
  }
}

bool right(const Problem& problem, uint32_t breaks) {
  const Answer got = answer(problem, breaks);
  return got.report.hazards.empty() && check_output(problem, got.o, got.lse).passed();
}

TEST_CASE("break: mask-every-tile is right, and masks every tile") {
  const Problem problem = causal({1, 1, 512, 512, 128});
  CHECK(right(problem, MASK_EVERY_TILE));
  CHECK(counted(problem, MASK_EVERY_TILE) == Tiles{20, 20, 12});
}

TEST_CASE("break: top-left is wrong as soon as the lengths differ") {
  CHECK(right(causal({1, 1, 100, 100, 64}), TOP_LEFT));
  CHECK_FALSE(right(causal({1, 1, 100, 130, 64}), TOP_LEFT));
  CHECK_FALSE(right(causal({1, 1, 1, 100, 64}), TOP_LEFT));  // decoding sees only the first key
}

TEST_CASE("break: window-off-by-one is wrong in every row that has a key there") {
  CHECK_FALSE(right(window({1, 1, 100, 100, 64}, 20, 0), WINDOW_OFF_BY_ONE));
  CHECK(right(causal({1, 1, 100, 100, 64}), WINDOW_OFF_BY_ONE));  // no left side
}

TEST_CASE("break: modulo-heads is wrong, unless there is one head of K or as many as of Q") {
  const auto grouped = [](int64_t group) {
    return random_problem({1, 4, 40, 50, 64}, Dtype::bf16, 4, 1, group);
  };
  CHECK_FALSE(right(grouped(2), MODULO_HEADS));
  CHECK(right(grouped(1), MODULO_HEADS));
  CHECK(right(grouped(4), MODULO_HEADS));
}

TEST_CASE("break: unguarded-max gives NaN to rows that have seen nothing yet") {
  const Answer got = answer(causal({1, 1, 200, 70, 64}), UNGUARDED_MAX);
  CHECK(got.report.hazards.empty());
  CHECK(std::isnan(got.lse[129]) + std::isnan(got.o[129 * 64]) > 0);
  CHECK(right(causal({1, 1, 128, 128, 64}), UNGUARDED_MAX));  // every row sees a key in each tile
}

TEST_CASE("break: softcap-after-mask lets hidden keys weigh something") {
  Problem problem = causal({1, 1, 100, 100, 64});
  CHECK(right(problem, SOFTCAP_AFTER_MASK));  // no softcap
  problem.softcap = 1.5;
  CHECK_FALSE(right(problem, SOFTCAP_AFTER_MASK));
}

TEST_CASE("break: sink-not-rescaled counts the sink as if m were still its own") {
  Problem problem = random_problem({1, 2, 64, 100, 64}, Dtype::bf16, 4);
  CHECK(right(problem, SINK_NOT_RESCALED));  // no sink
  problem.sinks = {12, 14};                  // m never rises above it
  CHECK(right(problem, SINK_NOT_RESCALED));
  problem.sinks = {-6, -8};  // it does
  CHECK_FALSE(right(problem, SINK_NOT_RESCALED));
}

TEST_CASE("break: late-sequence reads behind the end of cu_seqlens, which is reported") {
  const Answer got = answer(packed({70, 60}, {90, 33}, 64), LATE_SEQUENCE);
  REQUIRE_FALSE(got.report.hazards.empty());
  CHECK(got.report.hazards[0].kind == simt::HazardKind::kOutOfBounds);
  CHECK_FALSE(check_output(packed({70, 60}, {90, 33}, 64), got.o, got.lse).passed());
}

TEST_CASE("breaks of the softmax") { breaks_of_the_softmax(KERNEL); }

TEST_CASE("breaks of the synchronization") {
  is_reported_as(KERNEL, MISSING_WAIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, MISSING_BARRIER, simt::HazardKind::kOverwriteWhileRead);
  is_reported_as(KERNEL, DIVERGENT_BARRIER, simt::HazardKind::kBarrierDivergence);
  is_reported_as(KERNEL, CONDITIONAL_COMMIT, simt::HazardKind::kReadBeforeWait);
  is_reported_as(KERNEL, WAIT_TOO_FEW, simt::HazardKind::kReadBeforeWait);
}

TEST_CASE("break: swizzle on one side only") {
  is_finite_and_wrong(KERNEL, SWIZZLE_ONE_SIDE, {1, 1, 64, 128, 64});
}

}  // namespace
