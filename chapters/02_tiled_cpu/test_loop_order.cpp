// Compares loads and stores of both loop orders with the formulas, exactly.
#include <doctest/doctest.h>

#include "attention.hpp"
#include "common/check.hpp"
#include "loop_order.hpp"
#include "tile.hpp"

using namespace ch02;

namespace {

struct Ran {
  LoopTraffic traffic;
  bool agrees;
  int64_t steps = 0;
};

Ran run(const fa::Shape& shape, Blocks blocks, bool queries_outside, int64_t resident = 0) {
  const fa::Problem problem = fa::random_problem(shape, fa::Dtype::f32, 5);
  std::vector<float> o(shape.q_elements(), std::nanf("")), lse(shape.q, std::nanf(""));
  const HeadTensors head{
      {problem.q.data(), shape.q, shape.dim},  {problem.k.data(), shape.kv, shape.dim},
      {problem.v.data(), shape.kv, shape.dim}, static_cast<float>(problem.scale),
      {o.data(), shape.q, shape.dim},          lse};
  Ran ran;
  const auto count = [&](const LoopStep&) { ++ran.steps; };
  ran.traffic =
      queries_outside ? q_outer(head, blocks, count) : kv_outer(head, blocks, resident, count);
  ran.agrees = fa::check_output(problem, o, lse).passed();
  return ran;
}

}  // namespace

TEST_CASE("tiles of one query and one key: n and n squared, as in the table of loop orders") {
  for (const int64_t n : {1, 2, 7, 16}) {
    CAPTURE(n);
    const Ran inner = run({1, 1, n, n, 8}, {1, 1}, true),
              outer = run({1, 1, n, n, 8}, {1, 1}, false);
    CHECK(inner.agrees);
    CHECK(outer.agrees);
    CHECK(inner.traffic.q_loads == n);
    CHECK(inner.traffic.kv_loads == n * n);
    CHECK(inner.traffic.o_loads == 0);
    CHECK(inner.traffic.o_starts == n);  // the table counts it as a load
    CHECK(inner.traffic.o_stores == n);
    CHECK(outer.traffic.q_loads == n * n);
    CHECK(outer.traffic.kv_loads == n);
    CHECK(outer.traffic.o_loads == n * n);
    CHECK(outer.traffic.o_stores == n * n);
    CHECK(outer.steps == n * n);
  }
}

TEST_CASE("tiles: the same formulas with T_r and T_c, any lengths") {
  const struct {
    fa::Shape shape;
    Blocks blocks;
  } cases[] = {{{1, 1, 128, 128, 16}, {32, 16}},
               {{1, 1, 100, 77, 5}, {32, 16}},
               {{1, 1, 5, 5, 3}, {3, 4}},
               {{1, 1, 1, 50, 8}, {16, 16}}};
  for (const auto& [shape, blocks] : cases) {
    const int64_t rows = tiles_in(shape.q, blocks.rows), cols = tiles_in(shape.kv, blocks.cols);
    const int64_t q_elements = shape.q * shape.dim, kv_elements = 2 * shape.kv * shape.dim;
    const Ran inner = run(shape, blocks, true), outer = run(shape, blocks, false);
    const std::string which = fa::to_string(shape);
    CAPTURE(which);
    CHECK(inner.agrees);
    CHECK(outer.agrees);
    CHECK(inner.traffic.q_loads == rows);
    CHECK(inner.traffic.kv_loads == rows * cols);
    CHECK(inner.traffic.o_stores == rows);
    CHECK(inner.traffic.elements_read == q_elements + rows * kv_elements);
    CHECK(inner.traffic.elements_written == q_elements + shape.q);
    CHECK(outer.traffic.q_loads == rows * cols);
    CHECK(outer.traffic.kv_loads == cols);
    CHECK(outer.traffic.o_loads == rows * cols);
    CHECK(outer.traffic.o_stores == rows * cols);
    CHECK(outer.traffic.elements_read ==
          kv_elements + cols * (q_elements + q_elements + 2 * shape.q));
    CHECK(outer.traffic.elements_written == cols * (q_elements + 2 * shape.q));
  }
}

TEST_CASE("each tile of O kept in fast memory saves n - 1 loads and stores") {
  constexpr int64_t n = 9;
  for (int64_t kept = 0; kept <= n; ++kept) {
    const Ran ran = run({1, 1, n, n, 4}, {1, 1}, false, kept);
    CHECK(ran.agrees);
    CHECK(ran.traffic.o_stores == n * n - kept * (n - 1));
    CHECK(ran.traffic.o_loads == n * n - kept * (n - 1));
  }
}

namespace {

// The same traffic as the algorithm that the chapter runs, with every element in exactly one visit.
void check_against(Algorithm algorithm, const LoopTraffic& traffic, const fa::Problem& problem,
                   Blocks blocks) {
  Options options;
  options.algorithm = algorithm;
  options.tiling = {blocks.rows, blocks.cols};
  std::vector<float> o(problem.shape.q_elements()), lse(problem.shape.q);
  const Counts counts = attend(problem, options, o, lse).counts;
  CHECK(4 * traffic.elements_read == counts.bytes_read);
  CHECK(4 * traffic.elements_written == counts.bytes_written);
  int64_t loads = 0, stores = 0;
  for (const Visit& visit : traffic.visits) {
    for (const int64_t elements : visit.loads) loads += elements;
    for (const int64_t elements : visit.stores) stores += elements;
  }
  CHECK(loads == traffic.elements_read);
  CHECK(stores == traffic.elements_written);
}

Elements stored(const LoopTraffic& traffic) {
  Elements sum{};
  for (const Visit& visit : traffic.visits) {
    for (int matrix = 0; matrix < kMatrices; ++matrix) sum[matrix] += visit.stores[matrix];
  }
  return sum;
}

}  // namespace

TEST_CASE("three passes move what safe attention moves, queries outside what tiled moves") {
  for (const bool causal : {false, true}) {
    for (const Blocks blocks : {Blocks{3, 4}, Blocks{16, 8}, Blocks{50, 50}, Blocks{64, 1}}) {
      fa::Problem problem = fa::random_problem({1, 1, 50, 50, 6}, fa::Dtype::f32, 7);
      problem.causal = causal;
      std::vector<float> o(300), lse(50);
      const HeadTensors head{{problem.q.data(), 50, 6},
                             {problem.k.data(), 50, 6},
                             {problem.v.data(), 50, 6},
                             static_cast<float>(problem.scale),
                             {o.data(), 50, 6},
                             lse,
                             causal};
      const auto fresh = [&] {
        std::fill(o.begin(), o.end(), std::nanf("")), lse = {o.begin(), o.begin() + 50};
      };
      CAPTURE(causal);
      CAPTURE(blocks.rows);
      fresh();
      const LoopTraffic plain = three_passes(head, blocks);
      CHECK(fa::check_output(problem, o, lse).passed());
      check_against(Algorithm::safe, plain, problem, blocks);
      CHECK(stored(plain)[kS] == 2500);
      fresh();
      const LoopTraffic tiled = q_outer(head, blocks);
      CHECK(fa::check_output(problem, o, lse).passed());
      check_against(Algorithm::tiled, tiled, problem, blocks);
      CHECK(stored(tiled)[kS] + stored(tiled)[kP] == 0);
      for (const int64_t resident : {0, 1, 50}) {
        fresh();
        const LoopTraffic outer = kv_outer(head, blocks, resident);
        CHECK(fa::check_output(problem, o, lse).passed());
        CHECK(outer.visits.size() == tiled.visits.size());  // the same tiles in another order
        CHECK(stored(outer)[kS] + stored(outer)[kP] == 0);
        if (resident == 50) CHECK(outer.o_stores == tiled.o_stores);  // each tile once
      }
    }
  }
}

TEST_CASE("N = 5, d = 3, M = 59: B_c is 5 rounded up and 4 rounded down; only 4 fits") {
  const Blocks up = blocks_for(59, 3, true), down = blocks_for(59, 3, false);
  CHECK(up.cols == 5);
  CHECK(down.cols == 4);
  CHECK(up.rows == 3);
  CHECK(down.rows == 3);
  CHECK(up.elements(3) == 63);
  CHECK(down.elements(3) == 54);
  CHECK(down.elements(3) + 2 * down.rows == 60);  // with m and l it exceeds M = 59
  const Ran ran = run({1, 1, 5, 5, 3}, down, false);
  CHECK(ran.agrees);
  CHECK(ran.steps == 4);  // ⌈5/4⌉ · ⌈5/3⌉, because rounding down would give 1 and omit keys
}

TEST_CASE("kv_outer: after each step O is the attention over the keys seen so far") {
  const fa::Problem problem = fa::random_problem({1, 1, 10, 12, 3}, fa::Dtype::f32, 6);
  std::vector<float> o(30), lse(10);
  const HeadTensors head{{problem.q.data(), 10, 3}, {problem.k.data(), 12, 3},
                         {problem.v.data(), 12, 3}, static_cast<float>(problem.scale),
                         {o.data(), 10, 3},         lse};
  int steps = 0;
  kv_outer(head, {4, 5}, 0, [&](const LoopStep& step) {
    ++steps;
    fa::Problem seen = problem;  // the keys up to the end of this tile, the queries of this tile
    seen.shape = {1, 1, step.queries.size(), step.keys.end, 3};
    seen.q.assign(problem.q.begin() + 3 * step.queries.begin,
                  problem.q.begin() + 3 * step.queries.end);
    seen.k.resize(3 * step.keys.end);
    seen.v.resize(3 * step.keys.end);
    CHECK(fa::check_output(seen, std::span(step.after.o).first(seen.q.size()), {}).passed());
  });
  CHECK(steps == 9);
}
