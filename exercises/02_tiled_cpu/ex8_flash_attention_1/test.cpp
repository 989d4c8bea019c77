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

// m, l and o of every query as they waited in slow memory after each store. If there are not as
// many stores as there are meetings of two tiles, what is there in the end.
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

// One tile of keys and a query: the query's state, the state of the tile alone, and the tile's
// number.
struct Meeting {
  State& state;
  const State& alone;
  bool last;

  float m() const { return std::max(state.m, alone.m); }
  float old() const { return std::exp(state.m - m()); }
  float add() const { return std::exp(alone.m - m()); }
  float l() const { return old() * state.l + add() * alone.l; }
  // o'[d] = o(d) for all d; then m and l are stored.
  template <class O>
  void update(O o) const {
    std::vector<float> result;
    for (size_t d = 0; d < state.o.size(); ++d) result.push_back(o(d));
    const float m_new = m(), l_new = l();
    state.o = result;
    state.m = m_new;
    state.l = l_new;
  }
};

// The stored states if each meeting does update(meeting). `at_the_end`: only the last is stored.
template <class Update>
static Numbers stored(const Problem& problem, Update update, bool at_the_end) {
  SlowMemory memory = problem.memory();
  for (int64_t i = 0; i < memory.q_tiles(); ++i) {
    std::vector<State> states = memory.load_output(i);
    for (int64_t j = 0; j < memory.kv_tiles(); ++j) {
      const std::vector<State> alone = memory.attend(memory.load_q(i), memory.load_kv(j));
      for (size_t row = 0; row < states.size(); ++row)
        update(Meeting{states[row], alone[row], j + 1 == memory.kv_tiles()});
      if (!at_the_end) memory.store_output(i, states);
    }
    if (at_the_end) memory.store_output(i, states);
  }
  return outputs(memory);
}

static void check_output(const Problem& problem) {
  SlowMemory memory = problem.memory();
  flash_attention_1(memory);
  const bool at_the_end = memory.traffic().output_stores != memory.q_tiles() * memory.kv_tiles();
  const Numbers got = outputs(memory);
  const auto with = [&](auto update) { return stored(problem, update, at_the_end); };
  // o' = o(meeting, o[d], o~[d]), with m and l right.
  const auto with_o = [&](auto o) {
    return with([&](const Meeting& meeting) {
      meeting.update([&](size_t d) { return o(meeting, meeting.state.o[d], meeting.alone.o[d]); });
    });
  };
  using F = float;
  using M = const Meeting&;
  const auto right = [](M a, F o, F o_alone) {
    return (a.old() * a.state.l * o + a.add() * o_alone) / a.l();
  };
  Numbers nothing;
  for (size_t i = 0; i < memory.outputs().size() * problem.block_q; ++i) {
    nothing.insert(nothing.end(), {-tiles::kInfinity, 0});
    nothing.insert(nothing.end(), problem.dim, 0);
  }
  exercise::check_output(
      {"query", 2 + problem.dim, 1e-5, tiles::names_in_state(problem.dim)}, got, with_o(right),
      {{"old-sum-forgotten",
        with_o([](M a, F o, F o_alone) { return (a.old() * o + a.add() * o_alone) / a.l(); }),
        "o in slow memory is divided by the old l; multiply by it before you add, or the earlier "
        "keys weigh too little"},
       {"never-divided",
        with_o([](M a, F o, F o_alone) { return a.old() * o + a.add() * o_alone; }),
        "o is the sum, not the average: here it is divided by l' at each step"},
       {"never-divided",
        with_o([](M a, F o, F o_alone) { return a.old() * a.state.l * o + a.add() * o_alone; }),
        "o is the sum, not the average: here it is divided by l' at each step"},
       {"divided-at-the-end", with_o([](M a, F o, F o_alone) {
          return (a.old() * o + a.add() * o_alone) / (a.last ? a.l() : 1);
        }),
        "right in the end, but o waits undivided in slow memory until the last tile; here it is "
        "divided by l' at each step"},
       {"old-not-rescaled",
        with_o([](M a, F o, F o_alone) { return (a.state.l * o + a.add() * o_alone) / a.l(); }),
        "keep is l; it is e^(m - m') l: the old sum moves to the new maximum"},
       {"new-not-rescaled",
        with_o([](M a, F o, F o_alone) { return (a.old() * a.state.l * o + o_alone) / a.l(); }),
        "what this tile adds is relative to its own maximum; it needs the factor e^(m~ - m')"},
       {"tile-sum-twice", with_o([](M a, F o, F o_alone) {
          return (a.old() * a.state.l * o + a.add() * a.alone.l * o_alone) / a.l();
        }),
        "this tile's o was multiplied by its l; it is not divided, so it is a sum already"},
       {"divided-by-the-old-sum", with_o([](M a, F o, F o_alone) {
          return (a.old() * a.state.l * o + a.add() * o_alone) / a.state.l;
        }),
        "o was divided by the old l, which is 0 at first; it is divided by l'"},
       {"factors-swapped", with_o([](M a, F o, F o_alone) {
          return (a.add() * a.state.l * o + a.old() * o_alone) / a.l();
        }),
        "the old o has the tile's factor and the tile's o the old one: keep = e^(m - m') l, add = "
        "e^(m~ - m')"},
       {"factors-upside-down", with([](M a) {
          const F keep = a.state.l / a.old(), add = 1 / a.add(), l = keep + add * a.alone.l;
          const F m = a.m();
          for (size_t d = 0; d < a.state.o.size(); ++d)
            a.state.o[d] = (keep * a.state.o[d] + add * a.alone.o[d]) / l;
          a.state.m = m;
          a.state.l = l;
        }),
        "the exponents are m' - m and m' - m~; then the factors are above 1, and Inf at first"},
       {"sums-not-rescaled", with([&](M a) {
          const F l = a.state.l + a.alone.l;
          a.update([&](size_t d) { return right(a, a.state.o[d], a.alone.o[d]) * a.l() / l; });
          a.state.l = l;
        }),
        "l' is l + l~; each of them moves to m' first: keep + add l~"},
       {"tile-sum-forgotten", with([](M a) {
          const F m = a.m(), add = a.add(), keep = a.old() * a.state.l, l = keep + add;
          for (size_t d = 0; d < a.state.o.size(); ++d)
            a.state.o[d] = (keep * a.state.o[d] + add * a.alone.o[d]) / l;
          a.state.m = m;
          a.state.l = l;
        }),
        "l' is keep + add; it is keep + add l~: a tile has more than one key"},
       {"l-overwritten-first", with_o([](M a, F o, F o_alone) {
          return (a.old() * a.l() * o + a.add() * o_alone) / a.l();
        }),
        "keep was taken from the new l; it needs the old one"},
       {"m-overwritten-first", with([&](M a) {
          const F m = a.m(), add = a.add(), l = a.state.l + add * a.alone.l;
          for (size_t d = 0; d < a.state.o.size(); ++d)
            a.state.o[d] = (a.state.l * a.state.o[d] + add * a.alone.o[d]) / l;
          a.state.m = m;
          a.state.l = l;
        }),
        "m was overwritten before keep was taken: e^(m' - m') is 1, and the old sums stay where "
        "they were"},
       {"state-not-updated", with([&](M a) {
          const F m = a.state.m, l = a.state.l;
          a.update([&](size_t d) { return right(a, a.state.o[d], a.alone.o[d]); });
          a.state.m = m;
          a.state.l = l;
        }),
        "only o was stored in the state: m and l stay what they were at first, and the next tile "
        "takes all that was before for nothing"},
       {"state-not-updated", with([&](M a) {
          const F m = a.state.m;
          a.update([&](size_t d) { return right(a, a.state.o[d], a.alone.o[d]); });
          a.state.m = m;
        }),
        "m' was never stored in the state: the next tile takes the old m"},
       {"state-not-updated", with([&](M a) {
          const F l = a.state.l;
          a.update([&](size_t d) { return right(a, a.state.o[d], a.alone.o[d]); });
          a.state.l = l;
        }),
        "l' was never stored in the state: the next tile takes the old l"},
       {"load-output-skipped", with([&](M a) {
          a.state = State(static_cast<int64_t>(a.state.o.size()));
          a.update([&](size_t d) { return right(a, a.state.o[d], a.alone.o[d]); });
        }),
        "each tile of keys begins with an empty state: load what the tiles before have left"},
       {"output-not-stored", at_the_end ? nothing : Numbers(got.size(), 0.5),
        "slow memory is unchanged, because your result was never stored"}});
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
        "each tile of queries loads all keys: that is FlashAttention-2; here the loop over keys is "
        "the outer one"},
       {"keys-loaded-again", t.kv_loads == 20 && t.output_stores == 20,
        "K and V were loaded once for each pair of tiles; load a tile of keys once, before the "
        "loop over the queries"},
       {"load-output-skipped", t.kv_loads == 5 && t.output_loads == 0 && t.output_stores == 20,
        "each tile of keys begins with an empty state: load what the tiles before have left"},
       {"first-load-saved",
        t.q_loads == 20 && t.kv_loads == 5 && t.output_loads == 16 && t.output_stores == 20,
        "right, but for one tile of keys the states were not loaded: those without a key are in "
        "slow memory from the start, so that every tile of keys does the same"},
       {"queries-kept", t.q_loads == 4 && t.kv_loads == 5 && t.output_stores == 20,
        "each tile of queries was loaded once and kept; fast memory has room for one: load it when "
        "a tile of keys meets it"},
       {"states-kept", t.kv_loads == 5 && t.output_loads <= 4 && t.output_stores == 4,
        "the states of all queries stayed in fast memory until the end; it has room for one "
        "tile's: load and store them for each tile of keys"},
       {"output-not-stored", t.output_stores == 0,
        "slow memory is unchanged, because your result was never stored"}});
}
