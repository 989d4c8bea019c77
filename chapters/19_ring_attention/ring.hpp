#pragma once
// Attention over a sequence that several ranks share. Each holds some of the queries and some of
// the keys; keys and values travel from rank to rank, and the state of a query stays at home:
// Ring Attention (Liu, Zaharia and Abbeel 2023).

#include <cstdint>
#include <span>
#include <vector>

#include "partition.hpp"
#include "transport.hpp"

namespace ch19 {

enum class Schedule {
  gather,   // everybody gets all keys, then computes: Llama 3's
  ring,     // a rank's keys at a time; they travel after they were used
  overlap,  // they travel while they are used, into a second buffer
  zigzag,   // the same, and a rank holds an early and a late piece
};
constexpr Layout layout_of(Schedule schedule) {
  return schedule == Schedule::zigzag ? Layout::zigzag : Layout::in_order;
}

// Of the whole sequence; the same on every rank.
struct Sizes {
  int64_t heads, kv_heads, len_q, len_kv, dim;  // kv_heads divides heads
  double scale;
  bool causal;  // query i sees key j if j <= i + len_kv - len_q
};

// What a rank did with the keys of one rank.
struct Step {
  int owner;
  int64_t scores;  // query-key pairs that see each other, of one head
  double compute_ms, waited_ms;
  // Where kernels run: when it began, and the journey of the next step's keys, in milliseconds
  // since this rank began.
  double begin_ms = 0, transfer_begin_ms = 0, transfer_ms = 0;
};

// `breaks`: of breaks.hpp. The steps are added to *log, if there is one.
struct Options {
  Schedule schedule;
  uint32_t breaks = 0;
  std::vector<Step>* log = nullptr;
};

// A rank's part of Q, or of O and the like: [heads, rows, dim], the rows of its pieces one behind
// the other; and of K and V likewise, [kv_heads, rows, dim].
using Part = std::vector<float>;

// O and LSE [heads, rows] of a rank's queries, both fp32 from hop to hop: rounding them each time
// would add up. LSE is -inf and O 0 while no key was seen.
struct State {
  Part o, lse;
};

// state = merge(state, (o, lse)), for one row; o is [dim]. In the form that cannot overflow:
//   o = sigmoid(lse - lse_b) o + sigmoid(lse_b - lse) o_b,   lse -= log sigmoid(lse - lse_b)
void merge_row(std::span<float> o, float& lse, std::span<const float> o_b, float lse_b,
               uint32_t breaks = 0);

// The queries of this rank against all keys. q, k, v: this rank's parts. Every rank calls it.
State forward(Transport& transport, const Options& options, const Sizes& sizes, const Part& q,
              const Part& k, const Part& v);

struct Gradients {
  Part dq, dk, dv;  // of this rank's parts
};

// Likewise, from this rank's dO and what forward() left. K and V travel once more, and dK and dV
// with them, one hop further: home. `gather` adds up what every rank has found.
Gradients backward(Transport& transport, const Options& options, const Sizes& sizes, const Part& q,
                   const Part& k, const Part& v, const State& state, const Part& d_o);

}  // namespace ch19
