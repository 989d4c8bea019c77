#include "ring.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <utility>

#include "breaks.hpp"
#include "chapters/02_tiled_cpu/fast.hpp"
#include "chapters/10_backward/cpu_tile.hpp"
#include "common/half.hpp"
#include "common/timer.hpp"
#include "seen.hpp"

namespace ch19 {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The keys and values of some rank, in one message, and their positions in the sequence.
struct Keys {
  std::vector<Range> pieces;
  int64_t rows = 0;
  Part k_and_v;  // [2, kv_heads, rows, dim]

  Keys(const Sizes& sizes, std::vector<Range> of_pieces)
      : pieces(std::move(of_pieces)),
        rows(rows_in(pieces)),
        k_and_v(2 * sizes.kv_heads * rows * sizes.dim) {}
  const float* k(const Sizes& sizes, int64_t kv_head, int64_t row) const {
    return k_and_v.data() + (kv_head * rows + row) * sizes.dim;
  }
  const float* v(const Sizes& sizes, int64_t kv_head, int64_t row) const {
    return k(sizes, sizes.kv_heads + kv_head, row);
  }
};

// Attends with all of this rank's queries to these keys, and merges the result into the state.
void attend(const Sizes& sizes, const std::vector<Range>& pieces, const Part& q, const Keys& keys,
            State& state, uint32_t breaks) {
  const int64_t rows = rows_in(pieces), dim = sizes.dim;
  if (breaks & BF16_HOPS)  // the result of earlier steps
    for (float& x : state.o) x = fa::to_float(fa::to_bf16(x));
  Part o, lse;
  for_pairs(sizes, pieces, keys.pieces, [&](int64_t row, int64_t key_row, const Seen& seen) {
    const int64_t count = seen.end - seen.begin;
    o.resize(count * dim);
    lse.resize(count);
    for (int64_t head = 0; head < sizes.heads; ++head) {
      const int64_t kv_head = head / (sizes.heads / sizes.kv_heads);
      const int64_t at = head * rows + row;
      ch02::fast_attention(q.data() + at * dim, keys.k(sizes, kv_head, key_row),
                           keys.v(sizes, kv_head, key_row), o.data(), lse.data(),
                           {1, 1, count, seen.keys, dim}, sizes.scale, seen.causal, 1);
      for (int64_t i = 0; i < count; ++i)
        merge_row({state.o.data() + (at + i) * dim, static_cast<size_t>(dim)}, state.lse[at + i],
                  {o.data() + i * dim, static_cast<size_t>(dim)}, lse[i], breaks);
    }
  });
}

// Adds the contribution of this rank's queries and these keys to dQ, and to dK and dV, which are
// laid out as K and V. D is [heads, rows].
void add_gradients(const Sizes& sizes, const std::vector<Range>& pieces, const Part& q,
                   const State& state, const Part& d_o, const Part& D, const Keys& keys, Part& dq,
                   Part& dk_and_dv) {
  constexpr int64_t BLOCK = 64;
  const int64_t rows = rows_in(pieces), dim = sizes.dim, group = sizes.heads / sizes.kv_heads;
  const auto scale = static_cast<float>(sizes.scale);
  Part P(BLOCK * BLOCK), dS(BLOCK * BLOCK);
  const auto tile = [&](int64_t head, int64_t row, int64_t count, int64_t key_row,
                        int64_t key_count,
                        int64_t last_seen) {  // the first row sees keys up to this one
    const int64_t at = head * rows + row, kv_head = head / group;
    const float* const K = keys.k(sizes, kv_head, key_row);
    const float* const V = keys.v(sizes, kv_head, key_row);
    fa::ch10::multiply_transposed(P.data(), q.data() + at * dim, K, count, key_count, dim);
    fa::ch10::multiply_transposed(dS.data(), d_o.data() + at * dim, V, count, key_count, dim);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < key_count; ++j) {
        float& p = P[i * key_count + j];
        float& ds = dS[i * key_count + j];
        p = j <= last_seen + i ? std::exp(scale * p - state.lse[at + i]) : 0.0f;
        ds = scale * p * (ds - D[at + i]);  // includes the scale, which dQ and dK both need
      }
    float* const dK = dk_and_dv.data() + (kv_head * keys.rows + key_row) * dim;
    float* const dV = dK + sizes.kv_heads * keys.rows * dim;
    fa::ch10::add_inner(dq.data() + at * dim, dS.data(), K, count, key_count, dim);
    fa::ch10::add_outer(dK, dS.data(), q.data() + at * dim, key_count, count, dim);
    fa::ch10::add_outer(dV, P.data(), d_o.data() + at * dim, key_count, count, dim);
  };
  for_pairs(sizes, pieces, keys.pieces, [&](int64_t row, int64_t key_row, const Seen& seen) {
    const int64_t count = seen.end - seen.begin;
    for (int64_t head = 0; head < sizes.heads; ++head)
      for (int64_t i = 0; i < count; i += BLOCK)
        for (int64_t j = 0; j < seen.keys; j += BLOCK) {
          // row i of the triangle sees keys up to keys - count + i
          const int64_t last_seen = seen.causal ? seen.keys - count + i - j : seen.keys;
          const int64_t rows_here = std::min(BLOCK, count - i);
          if (last_seen + rows_here - 1 < 0) continue;
          tile(head, row + i, rows_here, key_row + j, std::min(BLOCK, seen.keys - j), last_seen);
        }
  });
}

// Returns `count` rows of each head of [heads, rows, dim].
Part copy_rows(const float* from, int64_t heads, int64_t rows, int64_t first, int64_t count,
               int64_t dim) {
  Part part;
  for (int64_t head = 0; head < heads; ++head) {
    const float* const begin = from + (head * rows + first) * dim;
    part.insert(part.end(), begin, begin + count * dim);
  }
  return part;
}

// Adds a part to `count` rows of each head of [heads, rows, dim].
void add_rows(float* to, const Part& part, int64_t heads, int64_t rows, int64_t first,
              int64_t count, int64_t dim) {
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t i = 0; i < count * dim; ++i)
      to[(head * rows + first) * dim + i] += part[head * count * dim + i];
}

// add_gradients by kernels, with a launch for each visible pair of pieces. A piece that sees all of
// some keys and a triangle of others has a launch for each.
void add_gradients(const KernelGradients& kernels, const Sizes& sizes,
                   const std::vector<Range>& pieces, const Part& q, const State& state,
                   const Part& d_o, const Keys& keys, Part& dq, Part& dk_and_dv) {
  const int64_t rows = rows_in(pieces), dim = sizes.dim;
  for_pairs(sizes, pieces, keys.pieces, [&](int64_t row, int64_t key_row, const Seen& seen) {
    const int64_t count = seen.end - seen.begin;
    if (seen.keys == 0) return;
    const auto of_q = [&](const Part& part, int64_t columns) {
      return copy_rows(part.data(), sizes.heads, rows, row, count, columns);
    };
    const auto of_k = [&](const float* from) {
      return copy_rows(from, sizes.kv_heads, keys.rows, key_row, seen.keys, dim);
    };
    fa::Problem problem;
    problem.shape = {1, sizes.heads, count, seen.keys, dim};
    problem.dtype = fa::Dtype::bf16;
    problem.scale = sizes.scale;
    problem.group = sizes.heads / sizes.kv_heads;
    problem.causal = seen.causal;
    problem.q = of_q(q, dim);
    problem.d_o = of_q(d_o, dim);
    problem.k = of_k(keys.k(sizes, 0, 0));
    problem.v = of_k(keys.v(sizes, 0, 0));
    Gradients found{Part(problem.q.size()), Part(problem.k.size()), Part(problem.k.size())};
    kernels(problem, {of_q(state.o, dim), of_q(state.lse, 1)}, found);
    add_rows(dq.data(), found.dq, sizes.heads, rows, row, count, dim);
    float* const dk = dk_and_dv.data();
    add_rows(dk, found.dk, sizes.kv_heads, keys.rows, key_row, seen.keys, dim);
    add_rows(dk + sizes.kv_heads * keys.rows * dim, found.dv, sizes.kv_heads, keys.rows, key_row,
             seen.keys, dim);
  });
}

void add(Part& sum, const Part& part) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
}

// In the ring, rank r sends its keys to rank r + 1 and receives the next ones from rank r - 1.
struct Ring {
  Transport& transport;
  const Options& options;
  const Sizes& sizes;
  Schedule schedule = options.schedule;
  int rank = transport.rank(), ranks = transport.ranks();

  int next() const { return (rank + 1) % ranks; }
  int previous() const { return (rank + ranks - 1) % ranks; }
  std::vector<Range> queries() const {
    return pieces_of(layout_of(schedule), sizes.len_q, ranks, rank);
  }
  Keys keys_of(int owner) const {
    return {sizes, pieces_of(layout_of(schedule), sizes.len_kv, ranks, owner)};
  }
  Keys own(const Part& k, const Part& v) const {
    Keys keys = keys_of(rank);
    std::copy(k.begin(), k.end(), keys.k_and_v.begin());
    std::copy(v.begin(), v.end(), keys.k_and_v.begin() + std::ssize(k));
    return keys;
  }

  bool broken(RingBreak which) const { return (options.breaks & which) != 0; }

  // [anchor: travel]
  // Sends a rank's keys to the next rank and receives those of the previous rank into `into`.
  struct Journey {
    Request sent, received;
  };
  Journey travel(const Part& from, Part& into) const {
    Journey journey;
    const auto leave = [&] { journey.sent = transport.send(next(), Tag::keys, from); };
    if (broken(BLOCKING_SENDS)) {
      leave();
      transport.wait(journey.sent);
    }
    journey.received = transport.receive(previous(), Tag::keys, into);
    if (!broken(BLOCKING_SENDS)) leave();
    return journey;
  }
  void arrive(const Journey& journey) const {
    transport.wait(journey.received);
    transport.wait(journey.sent);
  }
  // [/anchor: travel]

  // Calls use(keys, owner) for the keys of every rank.
  template <class Use>
  void for_all_keys(const Part& k, const Part& v, Use use) const {
    Keys here = own(k, v);
    const std::vector<Range> at_home = here.pieces;
    const auto timed = [&](Keys& keys, int owner, double waited_ms) {
      for (size_t n = 0; broken(LOCAL_POSITIONS) && n < at_home.size(); ++n)
        keys.pieces[n] = {at_home[n].begin, at_home[n].begin + keys.pieces[n].size()};
      const double compute_ms = fa::time_ms([&] { use(keys, owner); });
      if (options.log == nullptr) return;
      const int64_t scores = scores_of(sizes, queries(), keys.pieces);
      options.log->push_back({owner, scores, compute_ms, waited_ms});
    };
    if (schedule == Schedule::gather) return timed_gather(std::move(here), timed);
    // [anchor: ring]
    double waited_ms = 0;
    for (int step = 0; step < ranks; ++step) {
      const int owner = (rank + ranks - step) % ranks;
      if (step == ranks - 1) return timed(here, owner, waited_ms);
      Keys coming = keys_of((owner + ranks - 1) % ranks);
      const bool one = broken(ONE_BUFFER) && coming.rows == here.rows;
      Part& into = one ? here.k_and_v : coming.k_and_v;
      Journey journey;
      if (schedule == Schedule::ring) {  // first one, then the other
        timed(here, owner, waited_ms);
        waited_ms = fa::time_ms([&] { arrive(travel(here.k_and_v, into)); });
      } else {  // transferred while they are used
        const double posted_ms = fa::time_ms([&] { journey = travel(here.k_and_v, into); });
        timed(here, owner, waited_ms);
        waited_ms = posted_ms + fa::time_ms([&] { arrive(journey); });
      }
      if (one) coming.k_and_v = here.k_and_v;
      here = std::move(coming);
    }
    // [/anchor: ring]
  }

  template <class Timed>
  void timed_gather(Keys here, Timed timed) const {
    std::vector<Keys> all;
    std::vector<Request> requests;
    for (int owner = 0; owner < ranks; ++owner) all.push_back(keys_of(owner));
    const double waited_ms = fa::time_ms([&] {
      for (int other = 0; other < ranks; ++other) {
        if (other == rank) continue;
        requests.push_back(transport.receive(other, Tag::keys, all[other].k_and_v));
        requests.push_back(transport.send(other, Tag::keys, here.k_and_v));
      }
      for (const Request& request : requests) transport.wait(request);
    });
    all[rank] = std::move(here);
    for (int owner = 0; owner < ranks; ++owner) timed(all[owner], owner, owner ? 0 : waited_ms);
  }
};

}  // namespace

// [anchor: merge]
void merge_row(std::span<float> o, float& lse, std::span<const float> o_b, float lse_b,
               uint32_t breaks) {
  if (lse_b == -kInfinity) return;  // fully masked; -inf - (-inf) would be NaN
  if (breaks & OVERFLOWING_MERGE) {
    const float base = lse == -kInfinity ? lse_b : lse;  // the first part, where o is 0, and so is
                                                         // its weight
    const float own = lse == -kInfinity ? 0.0f : 1.0f, ratio = std::exp(lse_b - base);
    for (size_t d = 0; d < o.size(); ++d) o[d] = (own * o[d] + ratio * o_b[d]) / (own + ratio);
    lse = base + std::log(own + ratio);
    return;
  }
  const float own = 1 / (1 + std::exp(lse_b - lse));  // e^inf is inf, and 1 / inf is 0
  const float weight = 1 / (1 + std::exp(lse - lse_b));
  for (size_t d = 0; d < o.size(); ++d) o[d] = own * o[d] + weight * o_b[d];
  lse = std::max(lse, lse_b) + std::log1p(std::exp(-std::abs(lse - lse_b)));
}
// [/anchor: merge]

State forward(Transport& transport, const Options& options, const Sizes& sizes, const Part& q,
              const Part& k, const Part& v) {
  const Ring ring{transport, options, sizes};
  const std::vector<Range> queries = ring.queries();
  State state{Part(q.size()), Part(sizes.heads * rows_in(queries), -kInfinity)};
  ring.for_all_keys(
      k, v, [&](const Keys& keys, int) { attend(sizes, queries, q, keys, state, options.breaks); });
  return state;
}

Gradients backward(Transport& transport, const Options& options, const Sizes& sizes, const Part& q,
                   const Part& k, const Part& v, const State& state, const Part& d_o) {
  const Ring ring{transport, options, sizes};
  const Schedule schedule = options.schedule;
  const std::vector<Range> queries = ring.queries();
  Part D(state.lse.size());
  for (size_t row = 0; row < D.size(); ++row)
    D[row] =
        fa::ch10::dot(d_o.data() + row * sizes.dim, state.o.data() + row * sizes.dim, sizes.dim);

  Gradients gradients{Part(q.size()), Part(k.size()), Part(v.size())};
  Part home(k.size() + v.size());  // dK and dV of this rank's keys
  std::vector<Request> sent;
  std::list<Part> leaving;  // in flight until `sent` has been waited for
  const auto send = [&](int to, Part found) {
    leaving.push_back(std::move(found));
    sent.push_back(transport.send(to, Tag::gradients, leaving.back()));
  };
  // [anchor: home]
  // The gradients of a rank's keys follow the keys. Each rank adds its contribution to those that
  // it received and sends them on. After the last step they are back at the owner.
  ring.for_all_keys(k, v, [&](const Keys& keys, int owner) {
    Part found(keys.k_and_v.size());
    if (options.kernels)
      add_gradients(options.kernels, sizes, queries, q, state, d_o, keys, gradients.dq, found);
    else
      add_gradients(sizes, queries, q, state, d_o, D, keys, gradients.dq, found);
    if (schedule != Schedule::gather && owner != ring.rank) {
      Part before(found.size());
      transport.wait(transport.receive(ring.previous(), Tag::gradients, before));
      add(found, before);
    }
    const int to = schedule == Schedule::gather ? owner : ring.next();
    if (to == ring.rank) return add(home, found);
    send(to, std::move(found));
  });
  // [/anchor: home]
  for (int other = 0; other < ring.ranks; ++other) {
    if (other == ring.rank || (schedule != Schedule::gather && other != ring.previous())) continue;
    Part found(home.size());
    transport.wait(transport.receive(other, Tag::gradients, found));
    add(home, found);
  }
  for (const Request& one : sent) transport.wait(one);
  std::copy_n(home.begin(), gradients.dk.size(), gradients.dk.begin());
  std::copy_n(home.begin() + std::ssize(gradients.dk), gradients.dv.size(), gradients.dv.begin());
  return gradients;
}

}  // namespace ch19
