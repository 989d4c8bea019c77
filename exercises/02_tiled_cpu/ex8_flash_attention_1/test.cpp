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

// m, l and o of every query as they waited in slow memory after each store. If the number of stores
// is not the number of pairs of tiles, returns those that are there in the end.
static Numbers outputs(const SlowMemory& memory) {
  const auto stores = memory.q_tiles() * memory.kv_tiles();
  const auto& all = memory.traffic().output_stores == stores ? memory.stored() : memory.outputs();
  Numbers result;
  for (const auto& tile : all) {
    for (const State& state : tile) {
      result.insert(result.end(), {state.m, state.l});
      result.insert(result.end(), state.o.begin(), state.o.end());
    }
  }
  return result;
}

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  // Adds the state of one tile to a query's state, whose o is divided by l. `last` is its last
  // tile.
  void meet(State& state, const State& alone, bool last) const {
    if (is("load-output-skipped")) state = State(static_cast<int64_t>(state.o.size()));
    const float m = std::max(state.m, alone.m);
    float old = std::exp(state.m - m), add = std::exp(alone.m - m);
    if (is("m-overwritten-first")) old = 1;
    if (is("factors-upside-down")) old = 1 / old, add = 1 / add;
    const float right_l = old * state.l + add * alone.l;
    const float l = is("sums-not-rescaled")    ? state.l + alone.l
                    : is("tile-sum-forgotten") ? old * state.l + add
                                               : right_l;
    const float keep = is("old-sum-forgotten")     ? old
                       : is("old-not-rescaled")    ? state.l
                       : is("factors-swapped")     ? add * state.l
                       : is("l-overwritten-first") ? old * l
                                                   : old * state.l;
    const float of_tile = is("new-not-rescaled")  ? 1
                          : is("tile-sum-twice")  ? add * alone.l
                          : is("factors-swapped") ? old
                                                  : add;
    const float by = is("never-divided") || (is("divided-at-the-end") && !last) ? 1
                     : is("divided-by-the-old-sum")                             ? state.l
                                                                                : l;
    for (size_t d = 0; d < state.o.size(); ++d)
      state.o[d] = (keep * state.o[d] + of_tile * alone.o[d]) / by;
    if (!is("m-not-stored")) state.m = m;
    if (!is("l-not-stored")) state.l = l;
  }
  // The stored states. `at_the_end`: only the last is stored.
  Numbers states(const Problem& problem, bool at_the_end) const {
    SlowMemory memory = problem.memory();
    for (int64_t i = 0; i < memory.q_tiles(); ++i) {
      std::vector<State> states = memory.load_output(i);
      for (int64_t j = 0; j < memory.kv_tiles(); ++j) {
        const std::vector<State> alone = memory.attend(memory.load_q(i), memory.load_kv(j));
        for (size_t row = 0; row < states.size(); ++row)
          meet(states[row], alone[row], j + 1 == memory.kv_tiles());
        if (!at_the_end) memory.store_output(i, states);
      }
      if (at_the_end) memory.store_output(i, states);
    }
    Numbers all = outputs(memory);
    if (!is("output-not-stored")) return all;
    const size_t row = 2 + static_cast<size_t>(problem.dim);
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = !at_the_end ? 0.5 : i % row == 0 ? -tiles::kInfinity : 0;
    return all;
  }
};

static const exercise::Table MISTAKES(R"(
old-sum-forgotten
  o in slow memory is divided by the old l. Multiply by it before you add, or the earlier keys weigh
  too little
never-divided: {old-sum-forgotten,} never-divided
  o is the sum, not the average: here it is divided by l' at each step
divided-at-the-end: old-sum-forgotten divided-at-the-end
  right in the end, but o waits undivided in slow memory until the last tile. Here it is divided by
  l' at each step
old-not-rescaled
  keep is l. It should be e^(m - m') l, because the old sum moves to the new maximum
new-not-rescaled
  what this tile adds is relative to its own maximum. It needs the factor e^(m~ - m')
tile-sum-twice
  this tile's o was multiplied by its l. But o is not divided, so it is a sum already
divided-by-the-old-sum
  o was divided by the old l, which is 0 at first. It has to be divided by l'
factors-swapped
  the old o has the tile's factor and the tile's o the old one: keep = e^(m - m') l, add = e^(m~ - m')
factors-upside-down
  the exponents are m' - m and m' - m~. Then the factors are above 1, and Inf at first
sums-not-rescaled
  l' is l + l~. Each of them moves to m' first: keep + add l~
tile-sum-forgotten
  l' is keep + add. It should be keep + add l~, because a tile has more than one key
l-overwritten-first
  keep was taken from the new l. It needs the old one
m-overwritten-first
  m was overwritten before keep was taken: e^(m' - m') is 1, and the old sums stay where they were
state-not-updated: m-not-stored l-not-stored
  only o was stored in the state: m and l stay what they were at first, and the next tile takes all
  that was before for nothing
state-not-updated: m-not-stored
  m' was never stored in the state: the next tile takes the old m
state-not-updated: l-not-stored
  l' was never stored in the state: the next tile takes the old l
load-output-skipped
  each tile of keys begins with an empty state: load what the tiles before have left
output-not-stored
  slow memory is unchanged, because your result was never stored
)");

static void check_output(const Problem& problem) {
  SlowMemory memory = problem.memory();
  flash_attention_1(memory);
  const bool at_the_end = memory.traffic().output_stores != memory.q_tiles() * memory.kv_tiles();
  exercise::check_output({"query", 2 + problem.dim, 1e-5, tiles::names_in_state(problem.dim)},
                         outputs(memory), Way{}.states(problem, at_the_end),
                         exercise::mistakes<Way>(MISTAKES, [&](const Way& way) {
                           return way.states(problem, at_the_end);
                         }));
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
      {{"queries-outside", t.kv_loads == 20 && t.output_loads <= 4 && t.output_stores == 4,
        "each tile of queries loads all keys: that is FlashAttention-2. Here the loop over keys is "
        "the outer one"},
       {"keys-loaded-again", t.kv_loads == 20 && t.output_stores == 20,
        "K and V were loaded once for each pair of tiles. Load a tile of keys once, before the "
        "loop over the queries"},
       {"load-output-skipped", t.kv_loads == 5 && t.output_loads == 0 && t.output_stores == 20,
        "each tile of keys begins with an empty state instead of the one that the earlier tiles "
        "have left"},
       {"first-load-saved",
        t.q_loads == 20 && t.kv_loads == 5 && t.output_loads == 16 && t.output_stores == 20,
        "right, but for one tile of keys the states were not loaded. Slow memory holds states "
        "without a key from the start, so that every tile of keys can do the same"},
       {"queries-kept", t.q_loads == 4 && t.kv_loads == 5 && t.output_stores == 20,
        "each tile of queries was loaded once and kept. Fast memory has room for one: load it when "
        "a tile of keys meets it"},
       {"states-kept", t.kv_loads == 5 && t.output_loads <= 4 && t.output_stores == 4,
        "the states of all queries stayed in fast memory until the end. It has room for one "
        "tile's: load and store them for each tile of keys"},
       {"output-not-stored", t.output_stores == 0,
        "slow memory is unchanged, because your result was never stored"}});
}
