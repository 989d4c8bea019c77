#pragma once
// Attention over a sequence that several ranks share. Each rank holds some of the queries and some
// of the keys. Keys and values are passed from rank to rank, and the state of a query stays at its
// owner, as in Ring Attention (Liu, Zaharia and Abbeel 2023).

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/problem.hpp"
#include "partition.hpp"
#include "transport.hpp"

namespace ch19 {

enum class Schedule {
  gather,   // every rank receives all keys, then computes (Llama 3)
  ring,     // one rank's keys at a time, transferred after they were used
  overlap,  // transferred while they are used, into a second buffer
  zigzag,   // the same, with an early and a late piece per rank
};
constexpr Layout layout_of(Schedule schedule) {
  return schedule == Schedule::zigzag ? Layout::zigzag : Layout::in_order;
}

// Sizes of the whole sequence, the same on every rank.
struct Sizes {
  int64_t heads, kv_heads, len_q, len_kv, dim;  // kv_heads divides heads
  double scale;
  bool causal;  // query i sees key j if j <= i + len_kv - len_q
};

// A rank's work on the keys of one rank.
struct Step {
  int owner;
  int64_t scores;  // query-key pairs per head that are not masked
  double compute_ms, waited_ms;
  // With kernels, when it began, and the transfer of the next step's keys, in milliseconds since
  // this rank began.
  double begin_ms = 0, transfer_begin_ms = 0, transfer_ms = 0;
};

// A rank's part of Q, O and similar tensors: [heads, rows, dim], with the rows of its pieces one
// after another. For K and V: [kv_heads, rows, dim].
using Part = std::vector<float>;

// O and LSE [heads, rows] of a rank's queries. Both are fp32 between steps, because rounding them
// each time would add up. LSE is -inf and O is 0 until a key has been seen.
struct State {
  Part o, lse;
};

struct Gradients {
  Part dq, dk, dv;  // parts of this rank
};

// Computes the gradients of a problem in bf16, where O and LSE are those of all keys. The results
// have their sizes.
using KernelGradients =
    std::function<void(const fa::Problem& problem, const State& state, Gradients& gradients)>;

// `breaks` are those of breaks.hpp. The steps are added to *log if it is not null. If there are
// `kernels`, they compute the gradients instead of the CPU.
struct Options {
  Schedule schedule;
  uint32_t breaks = 0;
  std::vector<Step>* log = nullptr;
  KernelGradients kernels = {};
};

// state = merge(state, (o, lse)) for one row, where o is [dim]. This form cannot overflow:
//   o = sigmoid(lse - lse_b) o + sigmoid(lse_b - lse) o_b,   lse -= log sigmoid(lse - lse_b)
void merge_row(std::span<float> o, float& lse, std::span<const float> o_b, float lse_b,
               uint32_t breaks = 0);

// Attends with the queries of this rank to all keys. q, k and v are this rank's parts. Every rank
// calls it.
State forward(Transport& transport, const Options& options, const Sizes& sizes, const Part& q,
              const Part& k, const Part& v);

// Computes the gradients from this rank's dO and the result of forward(). K and V are passed around
// once more, and dK and dV with them and one step further, to their owner. `gather` adds up the
// results of all ranks.
Gradients backward(Transport& transport, const Options& options, const Sizes& sizes, const Part& q,
                   const Part& k, const Part& v, const State& state, const Part& d_o);

}  // namespace ch19
