#pragma once
// Score modifiers are functions that change a score between scale · q·k and softmax. The result
// −inf hides the key.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

#include "common/problem.hpp"

namespace ch02 {

// Positions [begin, end) along the queries or the keys.
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// [anchor: modifier]
// Positions count from the start of the sequence, not from the start of a tile.
template <class M>
concept ScoreModifier = requires(const M& modifier, float score, int64_t query, int64_t key,
                                 Range queries, Range keys) {
  { modifier(score, query, key) } -> std::same_as<float>;
  { modifier.hides(queries, keys) } -> std::same_as<bool>;  // every score is −inf
};

struct NoModifier {
  float operator()(float score, int64_t, int64_t) const { return score; }
  bool hides(Range, Range) const { return false; }
};

// The causal mask, aligned so that the last query sees every key. offset = kv − q.
struct Causal {
  int64_t offset;
  float operator()(float score, int64_t query, int64_t key) const {
    return key > query + offset ? -std::numeric_limits<float>::infinity() : score;
  }
  bool hides(Range queries, Range keys) const { return keys.begin > queries.end - 1 + offset; }
};
// [/anchor: modifier]

// Causal, and limited to the last `window` keys up to the query's position.
struct SlidingWindow {
  int64_t offset, window;
  float operator()(float score, int64_t query, int64_t key) const {
    const int64_t last = query + offset;
    return key > last || key <= last - window ? -std::numeric_limits<float>::infinity() : score;
  }
  bool hides(Range queries, Range keys) const {
    return keys.begin > queries.end - 1 + offset || keys.end - 1 <= queries.begin + offset - window;
  }
};

// Attention with linear biases (Press, Smith and Lewis 2021), which lower scores with the distance.
struct Alibi {
  int64_t offset;
  float slope;  // fa::alibi_slope
  bool causal;
  float operator()(float score, int64_t query, int64_t key) const {
    if (causal) score = Causal{offset}(score, query, key);
    return score - slope * static_cast<float>(std::abs(query + offset - key));
  }
  bool hides(Range queries, Range keys) const {
    return causal && Causal{offset}.hides(queries, keys);
  }
};

static_assert(ScoreModifier<NoModifier> && ScoreModifier<Causal> && ScoreModifier<SlidingWindow> &&
              ScoreModifier<Alibi>);

// True if a causal mask crosses a tile, so that its first query does not see its last key. Kernels
// often process such tiles in a separate loop.
template <ScoreModifier M>
bool cuts(const M& modifier, Range queries, Range keys) {
  return std::isinf(modifier(0, queries.begin, keys.end - 1));
}

// The modifier of a run.
struct ModifierChoice {
  enum Kind { kNone, kAlibi, kWindow } kind = kNone;
  bool causal = false;
  int64_t window = 0;
};

// Calls work(modifier) with the chosen modifier for one head.
template <class Work>
void with_modifier(const ModifierChoice& choice, const fa::Shape& shape, int64_t head,
                   const Work& work) {
  const int64_t offset = shape.kv - shape.q;
  switch (choice.kind) {
    case ModifierChoice::kAlibi:
      return work(
          Alibi{offset, static_cast<float>(fa::alibi_slope(head, shape.heads)), choice.causal});
    case ModifierChoice::kWindow:
      return work(SlidingWindow{offset, choice.window});
    case ModifierChoice::kNone:
      return choice.causal ? work(Causal{offset}) : work(NoModifier{});
  }
}

}  // namespace ch02
