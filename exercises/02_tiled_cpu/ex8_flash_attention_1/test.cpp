#include <doctest/doctest.h>

#include <flash_attention_1.hpp>
#include <string>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

struct Problem {
  int len_q, len_kv, block_q, block_kv;
  int dim = 3;
  std::vector<float> q = exercise::random_numbers(len_q * dim, 1, 2),
                     k = exercise::random_numbers(len_kv * dim, 2),
                     v = exercise::random_numbers(len_kv * dim, 3);

  SlowMemory memory() const {
    return {{q.data(), len_q, dim},
            {k.data(), len_kv, dim},
            {v.data(), len_kv, dim},
            0.577f,
            block_q,
            block_kv};
  }
};

static Numbers outputs(const SlowMemory& memory) {
  Numbers all;
  for (const auto& tile : memory.outputs()) {
    for (const State& state : tile) all.insert(all.end(), state.o.begin(), state.o.end());
  }
  return all;
}

// o of every query, if update(old state, this tile's own state, e^(m - m'), e^(m~ - m'), l') is the
// new o[d] for the d given.
template <class Update>
static Numbers expected(const Problem& problem, Update update) {
  SlowMemory memory = problem.memory();
  for (int64_t i = 0; i < memory.q_tiles(); ++i) {
    std::vector<State> states = memory.load_output(i);
    for (int64_t j = 0; j < memory.kv_tiles(); ++j) {
      const std::vector<State> alone = memory.attend(memory.load_q(i), memory.load_kv(j));
      for (size_t row = 0; row < states.size(); ++row) {
        State& state = states[row];
        const float m = std::max(state.m, alone[row].m);
        const float old = std::exp(state.m - m), add = std::exp(alone[row].m - m);
        const float l = old * state.l + add * alone[row].l;
        for (size_t d = 0; d < state.o.size(); ++d) {
          state.o[d] = update(state, alone[row], old, add, l, d);
        }
        state.m = m;
        state.l = l;
      }
    }
    memory.store_output(i, states);
  }
  return outputs(memory);
}

static void check_output(const Problem& problem) {
  using F = float;
  SlowMemory memory = problem.memory();
  flash_attention_1(memory);
  const Numbers right = expected(problem, [](auto& a, auto& b, F old, F add, F l, size_t d) {
    return (old * a.l * a.o[d] + add * b.o[d]) / l;
  });
  exercise::check_output(
      {"o", problem.dim}, outputs(memory), right,
      {{"old-sum-forgotten",
        expected(problem, [](auto& a, auto& b, F old, F add, F l,
                             size_t d) { return (old * a.o[d] + add * b.o[d]) / l; }),
        "o in slow memory is divided by the old l; multiply by it before you add, or the earlier "
        "keys "
        "weigh too little"},
       {"never-divided",
        expected(problem, [](auto& a, auto& b, F old, F add, F,
                             size_t d) { return old * a.o[d] + add * b.o[d]; }),
        "o is the sum, not the average: here it is divided by l' at each step"},
       {"output-not-stored", Numbers(right.size(), 0.0),
        "slow memory still holds what it held at first; what you computed was never stored"}});
}

TEST_CASE("one tile") { check_output({4, 4, 4, 4}); }
TEST_CASE("two tiles of keys") { check_output({4, 8, 4, 4}); }
TEST_CASE("many tiles") { check_output({12, 20, 3, 4}); }

TEST_CASE("what crosses between slow and fast memory") {
  const Problem problem{12, 20, 3, 4};  // 4 tiles of queries, 5 of keys
  SlowMemory memory = problem.memory();
  flash_attention_1(memory);
  const SlowMemory::Traffic& t = memory.traffic();
  const auto words = [](auto q, auto kv, auto loads, auto stores) {
    return std::to_string(q) + " Q, " + std::to_string(kv) + " K and V, " + std::to_string(loads) +
           " loads and " + std::to_string(stores) + " stores of O";
  };
  const bool right =
      t.q_loads == 20 && t.kv_loads == 5 && t.output_loads == 20 && t.output_stores == 20;
  exercise::check(
      right,
      "tiles that crossed: expected " + words(20, 5, 20, 20) + "; got " +
          words(t.q_loads, t.kv_loads, t.output_loads, t.output_stores),
      {{"queries-outside", t.kv_loads == 20,
        "each tile of queries loads all keys: that is FlashAttention-2; here the loop over "
        "keys is the outer one"},
       {"output-not-stored", t.output_stores == 0,
        "slow memory still holds what it held at first; what you computed was never stored"}});
}
