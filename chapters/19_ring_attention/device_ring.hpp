#pragma once
// The steps of a rank as launches. The including file must first define Stream, Event, upload and
// download, which differ between a GPU and the emulator.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "common/kernels/array.hpp"
#include "common/kernels/kernel.hpp"
#include "common/kernels/softmax.hpp"
#include "device_forward.hpp"
#include "seen.hpp"

namespace FA_BACKEND::ch19 {

using ::ch19::Part;
using ::ch19::Range;
using ::ch19::Sizes;
using ::ch19::Tag;
using ::ch19::Transport;

// ---- kernels ----

// state = merge(state, (o, lse)) for `count` rows of each head. o [heads, count, dim] and lse
// [heads, count] come from a kernel. In O [heads, rows, dim] and LSE [heads, rows], the rows start
// at `first`.
struct Merge {
  const bf16* o;
  const float* lse;
  float *O, *LSE;
  int heads, count, dim, rows, first;
};
constexpr int MERGE_WARPS = 8;

// [anchor: device_merge]
// One warp per row.
FA_KERNEL FA_LAUNCH_BOUNDS(MERGE_WARPS* WARP_SIZE, 1)
void merge(const Merge p) {
  const int64_t from = int64_t{block_index()} * MERGE_WARPS + warp_index();
  if (from >= int64_t{p.heads} * p.count) return;
  const int64_t to = from / p.count * p.rows + p.first + from % p.count;
  const float lse = load_global(p.LSE + to), lse_b = load_global(p.lse + from);
  if (lse_b == NEG_INF) return;  // fully masked
  const float own = 1.0f / (1.0f + exp(lse_b - lse)), weight = 1.0f / (1.0f + exp(lse - lse_b));
  for (int d = lane_index() * 2; d < p.dim; d += 2 * WARP_SIZE) {
    const uint32_t o_b = load_global(reinterpret_cast<const uint32_t*>(p.o + from * p.dim + d));
    float* const o = p.O + to * p.dim + d;
    const float x = load_global(o), y = load_global(o + 1);
    store_global(o, own * x + weight * unpack_low<bf16>(o_b));
    store_global(o + 1, own * y + weight * unpack_high<bf16>(o_b));
  }
  warp_sync();  // all lanes have read LSE
  const float larger = max(lse, lse_b), smaller = lse < lse_b ? lse : lse_b;
  if (lane_index() == 0) store_global(p.LSE + to, larger + log(1.0f + exp(smaller - larger)));
}
// [/anchor: device_merge]

FA_KERNEL FA_LAUNCH_BOUNDS(256, 1)
void fill(float* to, float value, int64_t count) {
  const int64_t at = int64_t{block_index()} * 256 + thread_index();
  if (at < count) store_global(to + at, value);
}

// ---- the work of one launch of attention ----

struct Pair {
  int64_t row, count, key_row, keys;  // rows of the rank's queries, and rows of these keys
  bool causal;
};

// Returns everything that the queries see of these keys in as few pairs as possible. Adjacent
// queries that see all of the same keys are merged, and so are adjacent keys that the same queries
// see.
inline std::vector<Pair> pairs_of(const Sizes& sizes, const std::vector<Range>& queries,
                                  const std::vector<Range>& keys) {
  std::vector<Pair> pairs;
  ::ch19::for_pairs(
      sizes, queries, keys, [&](int64_t row, int64_t key_row, const ::ch19::Seen& seen) {
        if (seen.keys > 0)
          pairs.push_back({row, seen.end - seen.begin, key_row, seen.keys, seen.causal});
      });
  const auto joined = [](Pair& a, const Pair& b) {
    if (a.causal || b.causal) return false;
    if (a.row == b.row && a.count == b.count && a.key_row + a.keys == b.key_row) {
      a.keys += b.keys;
      return true;
    }
    if (a.key_row == b.key_row && a.keys == b.keys && a.row + a.count == b.row) {
      a.count += b.count;
      return true;
    }
    return false;
  };
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < pairs.size() && !again; ++i)
      for (size_t j = i + 1; j < pairs.size() && !again; ++j)
        if (joined(pairs[i], pairs[j])) {
          pairs.erase(pairs.begin() + static_cast<int64_t>(j));
          again = true;
        }
  }
  return pairs;
}

// ---- links ----

// A simultaneous exchange with other ranks, of an even number of bf16 values in this rank's memory.
struct Transfer {
  int send_to, receive_from;
  const bf16* from;
  int64_t send_count;
  bf16* into;
  int64_t receive_count;
};

class KeyLink {
 public:
  virtual ~KeyLink() = default;
  // Starts the transfers after all work in `stream`; they are complete when `stream` is.
  virtual void exchange(std::span<const Transfer> transfers, Stream& stream) = 0;
};

// The transport uses host memory, so the host waits for each part of the transfer.
class HostLink final : public KeyLink {
 public:
  explicit HostLink(Transport& transport) : transport_(transport) {}
  void exchange(std::span<const Transfer> transfers, Stream& stream) override {
    stream.synchronize();
    std::vector<std::vector<float>> sent, received;  // two bf16 in each float
    std::vector<::ch19::Request> requests;
    for (const Transfer& transfer : transfers) {
      sent.emplace_back(transfer.send_count / 2);
      received.emplace_back(transfer.receive_count / 2);
      download(sent.back().data(), transfer.from, sent.back().size() * sizeof(float));
    }
    for (size_t i = 0; i < transfers.size(); ++i) {
      requests.push_back(transport_.receive(transfers[i].receive_from, Tag::keys, received[i]));
      requests.push_back(transport_.send(transfers[i].send_to, Tag::keys, sent[i]));
    }
    for (const ::ch19::Request& request : requests) transport_.wait(request);
    for (size_t i = 0; i < transfers.size(); ++i)
      upload(transfers[i].into, received[i].data(), received[i].size() * sizeof(float));
  }

 private:
  Transport& transport_;
};

// Returns when every rank has called it.
inline void meet(Transport& transport) {
  Part word(1);
  const auto to_and_from = [&](int sender, int receiver) {
    if (transport.rank() == sender) transport.wait(transport.send(receiver, Tag::parts, word));
    if (transport.rank() == receiver) transport.wait(transport.receive(sender, Tag::parts, word));
  };
  for (int rank = 1; rank < transport.ranks(); ++rank) to_and_from(rank, 0);
  for (int rank = 1; rank < transport.ranks(); ++rank) to_and_from(0, rank);
}

// ---- a rank ----

class Rank {
 public:
  Rank(Transport& transport, ::ch19::Schedule schedule, const Sizes& sizes,
       const fa::Kernel& chapter, const fa::KernelBuild& build)
      : transport_(transport),
        schedule_(schedule),
        sizes_(sizes),
        chapter_(chapter),
        build_(build),
        rank_(transport.rank()),
        ranks_(transport.ranks()),
        queries_(pieces(sizes.len_q, rank_)),
        rows_(::ch19::rows_in(queries_)),
        most_keys_(most_keys()),
        Q_(at_least_one(sizes.heads * rows_ * sizes.dim), "Q"),
        O_(at_least_one(sizes.heads * rows_ * sizes.dim), "O"),
        LSE_(at_least_one(sizes.heads * rows_), "LSE"),
        part_o_(at_least_one(sizes.heads * rows_ * sizes.dim), "part of O"),
        part_lse_(at_least_one(sizes.heads * rows_), "part of LSE") {
    // Own keys, and two buffers used alternately, or one for each other rank.
    const int buffers = schedule == ::ch19::Schedule::gather ? ranks_ : std::min(ranks_, 3);
    for (int i = 0; i < buffers; ++i)
      keys_.push_back(std::make_unique<Array<bf16>>(
          at_least_one(2 * sizes.kv_heads * most_keys_ * sizes.dim), "K and V"));
  }

  void put(const Part& q, const Part& k, const Part& v) {
    const auto rounded = [](std::vector<bf16>& to, const Part& from) {
      for (const float x : from) to.push_back(fa::to_bf16(x));
    };
    std::vector<bf16> of_q, of_k_and_v;
    rounded(of_q, q);
    rounded(of_k_and_v, k);
    rounded(of_k_and_v, v);
    of_q.resize(Q_.size());
    of_k_and_v.resize(keys_[0]->size());
    Q_.upload(of_q);
    keys_[0]->upload(of_k_and_v);
  }

  // Starts all steps, then waits for them.
  void run(KeyLink& link, ::ch19::DeviceResult& result) {
    std::vector<Event> computing(ranks_), computed(ranks_), leaving(ranks_), arrived(ranks_);
    Event begin;
    result.steps.clear();
    result.bytes_sent = 0;
    meet(transport_);
    begin.record(compute_);
    clear(O_, 0.0f);
    clear(LSE_, NEG_INF);
    const auto use = [&](int step, int owner, const Array<bf16>& keys) {
      computing[step].record(compute_);
      const std::vector<Range> of_keys = pieces(sizes_.len_kv, owner);
      attend(of_keys, keys);
      computed[step].record(compute_);
      result.steps.push_back({owner, ::ch19::scores_of(sizes_, queries_, of_keys), {}, {}});
    };
    if (schedule_ == ::ch19::Schedule::gather) {
      std::vector<Transfer> all;
      for (int i = 1; i < ranks_; ++i) {
        const int to = (rank_ + i) % ranks_, from = (rank_ + ranks_ - i) % ranks_;
        all.push_back(
            {to, from, keys_[0]->data(), key_numbers(rank_), keys_[i]->data(), key_numbers(from)});
      }
      travel(link, all, leaving[0], arrived[0], result);
      compute_.wait(arrived[0]);
      for (int i = 0; i < ranks_; ++i) use(i, (rank_ + ranks_ - i) % ranks_, *keys_[i]);
    } else {
      // [anchor: device_ring]
      const int next = (rank_ + 1) % ranks_, previous = (rank_ + ranks_ - 1) % ranks_;
      for (int step = 0; step < ranks_; ++step) {
        const int owner = (rank_ + ranks_ - step) % ranks_;
        const Array<bf16>& here = buffer(step);
        if (step > 0) compute_.wait(arrived[step - 1]);
        use(step, owner, here);
        if (step + 1 == ranks_) break;
        // Copies into a buffer that the previous step has read, while this step computes or after
        // it.
        const bool overlaps = schedule_ != ::ch19::Schedule::ring;
        if (!overlaps) copy_.wait(computed[step]);
        if (overlaps && step > 0) copy_.wait(computed[step - 1]);
        const int coming = (owner + ranks_ - 1) % ranks_;
        const Transfer transfer{next,
                                previous,
                                here.data(),
                                key_numbers(owner),
                                buffer(step + 1).data(),
                                key_numbers(coming)};
        travel(link, {&transfer, 1}, leaving[step], arrived[step], result);
      }
      // [/anchor: device_ring]
    }
    Event end;
    end.record(compute_);
    compute_.synchronize();
    copy_.synchronize();
    const auto interval = [&](const Event& from, const Event& to) {
      return ::ch19::Interval{begin.ms_until(from), begin.ms_until(to)};
    };
    for (int step = 0; step < ranks_; ++step) {
      result.steps[step].compute = interval(computing[step], computed[step]);
      if (leaving[step].recorded())
        result.steps[step].transfer = interval(leaving[step], arrived[step]);
    }
    result.ms = begin.ms_until(end);
  }

  ::ch19::State state() const {
    ::ch19::State state{Part(O_.size()), Part(LSE_.size())};
    O_.download(state.o);
    LSE_.download(state.lse);
    state.o.resize(sizes_.heads * rows_ * sizes_.dim);
    state.lse.resize(sizes_.heads * rows_);
    return state;
  }

 private:
  static int64_t at_least_one(int64_t size) { return std::max<int64_t>(size, 1); }
  std::vector<Range> pieces(int64_t length, int rank) const {
    return ::ch19::pieces_of(::ch19::layout_of(schedule_), length, ranks_, rank);
  }
  int64_t key_rows(int owner) const { return ::ch19::rows_in(pieces(sizes_.len_kv, owner)); }
  int64_t key_numbers(int owner) const {
    return 2 * sizes_.kv_heads * key_rows(owner) * sizes_.dim;
  }
  int64_t most_keys() const {
    int64_t most = 0;
    for (int owner = 0; owner < ranks_; ++owner) most = std::max(most, key_rows(owner));
    return most;
  }
  // Own keys, then the two others alternately.
  const Array<bf16>& buffer(int step) const { return *keys_[step == 0 ? 0 : 1 + (step - 1) % 2]; }

  void clear(const Array<float>& array, float value) {
    launch(fill, static_cast<int>((array.size() + 255) / 256), 256, 0, array.data(), value,
           array.size());
  }

  void travel(KeyLink& link, std::span<const Transfer> transfers, Event& leaving, Event& arrived,
              ::ch19::DeviceResult& result) {
    leaving.record(copy_);
    link.exchange(transfers, copy_);
    arrived.record(copy_);
    for (const Transfer& transfer : transfers)
      result.bytes_sent += transfer.send_count * static_cast<int64_t>(sizeof(bf16));
  }

  void attend(const std::vector<Range>& of_keys, const Array<bf16>& keys) {
    const int64_t key_rows = ::ch19::rows_in(of_keys), dim = sizes_.dim;
    for (const Pair& pair : pairs_of(sizes_, queries_, of_keys)) {
      const auto tensor = [&](bf16* data, int64_t heads, int64_t length, int64_t rows) {
        return fa::TensorRef{data,
                             fa::Dtype::bf16,
                             {1, heads, length, dim},
                             {heads * rows * dim, rows * dim, dim, 1}};
      };
      bf16* const k = keys.data() + pair.key_row * dim;
      fa::ForwardArgs args{
          .q = tensor(Q_.data() + pair.row * dim, sizes_.heads, pair.count, rows_),
          .k = tensor(k, sizes_.kv_heads, pair.keys, key_rows),
          .v = tensor(k + sizes_.kv_heads * key_rows * dim, sizes_.kv_heads, pair.keys, key_rows),
          .o = tensor(part_o_.data(), sizes_.heads, pair.count, pair.count),
          .lse = {part_lse_.data(),
                  fa::Dtype::f32,
                  {1, sizes_.heads, pair.count, 1},
                  {sizes_.heads * pair.count, pair.count, 1, 1}},
          .scale = static_cast<float>(sizes_.scale),
          .window_right = pair.causal ? 0 : -1};
      fa::check_arguments(chapter_, args);
      build_.forward(args);
      const int64_t rows = sizes_.heads * pair.count;
      launch(merge, static_cast<int>((rows + MERGE_WARPS - 1) / MERGE_WARPS),
             MERGE_WARPS * WARP_SIZE, 0,
             Merge{.o = part_o_.data(),
                   .lse = part_lse_.data(),
                   .O = O_.data(),
                   .LSE = LSE_.data(),
                   .heads = static_cast<int>(sizes_.heads),
                   .count = static_cast<int>(pair.count),
                   .dim = static_cast<int>(dim),
                   .rows = static_cast<int>(rows_),
                   .first = static_cast<int>(pair.row)});
    }
  }

  Transport& transport_;
  const ::ch19::Schedule schedule_;
  const Sizes sizes_;
  const fa::Kernel& chapter_;
  const fa::KernelBuild& build_;
  const int rank_, ranks_;
  const std::vector<Range> queries_;
  const int64_t rows_, most_keys_;
  Stream compute_{true}, copy_{false};
  Array<bf16> Q_;
  Array<float> O_, LSE_;
  Array<bf16> part_o_;
  Array<float> part_lse_;
  std::vector<std::unique_ptr<Array<bf16>>> keys_;
};

// Returns the index of the repetition with the median time of its slowest rank, the same on all
// ranks.
inline size_t median_repetition(Transport& transport, Part ms) {
  Part chosen(1);
  for (int rank = 1; rank < transport.ranks(); ++rank) {
    if (transport.rank() == rank) transport.wait(transport.send(0, Tag::parts, ms));
    if (transport.rank() != 0) continue;
    Part of_rank(ms.size());
    transport.wait(transport.receive(rank, Tag::parts, of_rank));
    for (size_t i = 0; i < ms.size(); ++i) ms[i] = std::max(ms[i], of_rank[i]);
  }
  std::vector<size_t> order(ms.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return ms[i]; });
  chosen[0] = static_cast<float>(order[order.size() / 2]);
  for (int rank = 1; rank < transport.ranks(); ++rank) {
    if (transport.rank() == 0) transport.wait(transport.send(rank, Tag::parts, chosen));
    if (transport.rank() == rank) transport.wait(transport.receive(0, Tag::parts, chosen));
  }
  return static_cast<size_t>(chosen[0]);
}

inline ::ch19::DeviceResult repeated(Rank& rank, Transport& transport, KeyLink& link,
                                     int repetitions, const Part& q, const Part& k, const Part& v) {
  std::vector<::ch19::DeviceResult> results(repetitions);
  rank.put(q, k, v);
  Part ms;
  for (::ch19::DeviceResult& result : results) {
    rank.run(link, result);
    ms.push_back(static_cast<float>(result.ms));
  }
  ::ch19::DeviceResult& median = results[median_repetition(transport, ms)];
  median.state = rank.state();
  return std::move(median);
}

}  // namespace FA_BACKEND::ch19
