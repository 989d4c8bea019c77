#include <doctest/doctest.h>

#include <cmath>
#include <sinks.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;
using Scores = std::vector<float>;

constexpr float SCALE = 0.5f;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  float in_units_of_m(float sink, float scale) const {
    return is("sink-not-divided") ? sink : is("sink-multiplied") ? sink * scale : sink / scale;
  }
  State first_state(float sink, float scale, int lane) const {
    const bool counts = lane == 0 || is("four-times");
    State state{in_units_of_m(sink, scale), counts && !is("sum-from-zero") ? 1.0f : 0.0f, 0.0f};
    if (is("m-from-nothing")) state.m = NEG_INF;
    if (is("value-of-one")) state.o = state.l;
    return state;
  }
  void add_sink(State& row, float sink, float scale) const {
    if (is("added-to-l")) {
      row.l += std::exp(sink - scale * row.m);
      return;
    }
    const float own = in_units_of_m(sink, scale);
    float m_new = std::max(row.m, own);
    if (is("m-kept")) m_new = row.m;
    const float minus = m_new == NEG_INF && !is("unguarded") ? 0.0f : m_new;
    const float rescale = std::exp(scale * (row.m - minus));
    const float weight =
        is("weight-of-one") ? (sink != NEG_INF ? 1.0f : 0.0f) : std::exp(scale * (own - minus));
    const bool o_only = is("sum-not-rescaled"), l_only = is("output-not-rescaled");
    row = {m_new, row.l * (o_only ? 1 : rescale) + weight, row.o * (l_only ? 1 : rescale)};
    if (is("value-of-one")) row.o += weight;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  State first_state(float sink, float scale, int lane) const {
    return ::first_state(sink, scale, lane);
  }
  void add_sink(State& row, float sink, float scale) const { ::add_sink(row, sink, scale); }
};

static const exercise::Table MISTAKES(R"(
four-times
  each of the four lanes counts the sink, and the lanes are added up: one of them counts it
sink-not-divided
  m is the sink as it is. m is a score that is not scaled yet: sink / scale
sink-multiplied
  the sink was multiplied by scale. m is a score that is not scaled yet: sink / scale
sum-from-zero
  l started at 0. The sink's own weight is e^0 = 1
m-from-nothing
  m started at -inf with l = 1. The first key then rescales l by e^-inf, and the sink is lost
value-of-one
  o counts the sink too. It has no value, so o is only rescaled
added-to-l
  the sink was added to l, and m, l and o stayed relative to the largest score of a key. That
  overflows if the sink is far above it: m' = max(m, sink / scale)
m-kept
  m stayed the largest score of a key. e^(sink - scale m) overflows if the sink is far above it
unguarded
  with neither a key nor a sink m' is -inf, and -inf - (-inf) is NaN: subtract 0 then
weight-of-one
  1 was added to l, which is the sink's weight only if m is the sink: e^(sink - scale m')
sum-not-rescaled
  the sink became the maximum, and l still belongs to the old one: times e^(scale (m - m'))
output-not-rescaled
  the sink became the maximum, and o still belongs to the old one: times e^(scale (m - m'))
)");

template <class Run>
static void check_numbers(const char* name, const std::vector<std::string>& labels, Run run) {
  exercise::check_output<Way, Answer>({name, 0, 1e-4, labels}, MISTAKES, run);
}

static float subtrahend(float m) { return m == NEG_INF ? 0.0f : m; }

// Four lanes take the scores of each tile in turn, and are added up. Key j has the value j + 1.
static State row_of(std::vector<State> lanes, const std::vector<Scores>& tiles) {
  float value = 1;
  for (const Scores& s : tiles) {
    float tile_max = NEG_INF;
    for (const float score : s) tile_max = std::max(tile_max, score);
    for (State& lane : lanes) {
      const float m_new = std::max(lane.m, tile_max);
      const float rescale = std::exp(SCALE * (lane.m - subtrahend(m_new)));
      lane = {m_new, lane.l * rescale, lane.o * rescale};
    }
    for (size_t j = 0; j < s.size(); ++j) {
      State& lane = lanes[j % 4];
      const float weight = std::exp(SCALE * (s[j] - subtrahend(lane.m)));
      lane.l += weight;
      lane.o += weight * value++;
    }
  }
  State row{lanes[0].m, 0, 0};
  for (const State& lane : lanes) row.l += lane.l, row.o += lane.o;
  return row;
}

static Numbers output_of(const State& row) {
  const bool saw_nothing = row.m == NEG_INF && row.l == 0;
  return {saw_nothing ? 0 : row.o / row.l, saw_nothing ? NEG_INF : SCALE * row.m + std::log(row.l)};
}

static void check_row(float sink, const std::vector<Scores>& tiles) {
  check_numbers("row, sink first", {"O", "LSE"}, [&](const auto& way) {
    std::vector<State> lanes;
    for (int lane = 0; lane < 4; ++lane) lanes.push_back(way.first_state(sink, SCALE, lane));
    return output_of(row_of(lanes, tiles));
  });
  check_numbers("row, sink last", {"O", "LSE"}, [&](const auto& way) {
    State row = row_of(std::vector<State>(4), tiles);
    way.add_sink(row, sink, SCALE);
    return output_of(row);
  });
}

static const Scores HIDDEN = {NEG_INF, NEG_INF, NEG_INF, NEG_INF};
static const Scores VISIBLE = {2, -1, 3, 0, 1};

TEST_CASE("first_state: a lane that counts the sink, and one that does not") {
  for (const int lanes : {1, 2}) {
    check_numbers("lanes", {"m", "sum of l", "sum of o"}, [&](const auto& way) {
      State sum{NEG_INF, 0, 0};
      for (int lane = 0; lane < lanes * 2; ++lane) {
        const State state = way.first_state(3, SCALE, lane);
        sum = {state.m, sum.l + state.l, sum.o + state.o};
      }
      return Numbers{sum.m, sum.l, sum.o};
    });
  }
}
TEST_CASE("add_sink: the sink is below the largest score") {
  check_numbers("row", {"m", "l", "o"}, [&](const auto& way) {
    State row{4, 1.5f, -2};
    way.add_sink(row, 1, SCALE);
    return Numbers{row.m, row.l, row.o};
  });
}
TEST_CASE("add_sink: the sink is above it") {
  check_numbers("row", {"O", "LSE"}, [&](const auto& way) {
    State row{4, 1.5f, -2};
    way.add_sink(row, 3, SCALE);
    return output_of(row);
  });
}
TEST_CASE("a row: the sink is among the scores") { check_row(1, {VISIBLE, {4, NEG_INF, -2}}); }
TEST_CASE("a row: the sink is far below the scores") { check_row(-90, {VISIBLE}); }
TEST_CASE("a row: the sink is far above the scores") { check_row(200, {VISIBLE, HIDDEN}); }
TEST_CASE("a row: a hidden tile, a visible one, a hidden one") {
  check_row(0.5f, {HIDDEN, VISIBLE, HIDDEN});
}
TEST_CASE("a row: no key is visible, so the sink has all the weight") { check_row(-2, {HIDDEN}); }
TEST_CASE("a row: no sink") { check_row(NEG_INF, {VISIBLE, HIDDEN}); }
TEST_CASE("a row: no sink, and no key is visible") { check_row(NEG_INF, {HIDDEN}); }
TEST_CASE("a row: no sink, and no tile is visited") { check_row(NEG_INF, {}); }
