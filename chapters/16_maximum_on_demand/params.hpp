#pragma once
// From the host's arguments to the kernel's parameters, and from these to the work of one block.

#include <algorithm>

#include "breaks.hpp"
#include "common/kernels/launch.hpp"
#include "common/kernels/mask.hpp"

namespace FA_BACKEND::ch16 {

// A tensor [batch, heads, len, HEAD_DIM], twice, as a map for the copy engine, which copies a box,
// and with the distances in bytes of its batches, heads and rows. (O has no map.)
struct Tensor {
  char* data;
  int64_t batch, head, row;

  FA_DEVICE char* at(int of_batch, int of_head, int of_row) const {
    return data + of_batch * batch + of_head * head + of_row * row;
  }
};

struct Params {
  TensorMap Q_map, K_map, V_map;
  Tensor Q, K, V, O;                // K and V have heads / group
  float* LSE;                       // [batch, heads, len_q], or null
  const int *q_starts, *kv_starts;  // packed: sequence n is rows [starts[n], starts[n + 1])
  int heads, group;                 // `group` consecutive query heads share a head of K and V
  int sequences, q_tiles;           // q_tiles: tiles of the longest sequence
  int num_q_tiles;                  // tiles of all heads and sequences
  int together;                     // heads whose K and V the L2 cache holds at a time
  int len_q;
  float scale;
  const float* sinks;  // [heads], or null
  Mask mask;
};

// Returns the sink of a head in the unit of m, which is not scaled.
FA_DEVICE float sink_of(const Params& p, int head) { return load_global(p.sinks + head) / p.scale; }

// The work of one block, which is a tile of queries of one head of a batch, or of a packed
// sequence.
struct Work {
  int q_tile, head, batch;
  int q_start, kv_start;  // rows of the tensor before the sequence's first
  int len_q;
  Mask mask;
};

// A tile of queries of a head, which counts the heads of all batches.
struct Place {
  int head, q_tile;
};

// [anchor: order]
// Blocks start in the order of their index. Heads are taken in groups whose K and V fit into L2. In
// a group the tiles at the end of the sequence come first, because they see the most keys.
FA_DEVICE Place place_of(int index, int heads, int q_tiles, int together) {
  const int first_head = index / (together * q_tiles) * together;
  const int heads_left = heads - first_head;
  const int group_heads = heads_left < together ? heads_left : together;
  const int in_group = index - first_head * q_tiles;
  return {first_head + in_group % group_heads, q_tiles - 1 - in_group / group_heads};
}
// [/anchor: order]

template <class Breaks>
FA_DEVICE Work work_at(const Params& p, const Place& place, Breaks breaks) {
  const int head = place.head % p.heads, batch = place.head / p.heads;
  Work work{place.q_tile, head, batch, 0, 0, p.len_q, p.mask};
  if (p.q_starts == nullptr) return work;
  const int sequence = work.batch;
  work.batch = 0;
  work.q_start = load_global(p.q_starts + sequence);
  work.kv_start = load_global(p.kv_starts + sequence);
  work.len_q = load_global(p.q_starts + sequence + 1) - work.q_start;
  work.mask.len_kv = load_global(p.kv_starts + sequence + 1) - work.kv_start;
  work.mask.diagonal = breaks.has(fa::TOP_LEFT_MASK) ? 0 : work.mask.len_kv - work.len_q;
  return work;
}
template <class Breaks>
FA_DEVICE Work work_of(const Params& p, int index, Breaks breaks) {
  return work_at(p, place_of(index, p.heads * p.sequences, p.q_tiles, p.together), breaks);
}

// Returns the tiles that `rows` queries from `first_row` need, as far as they exist.
template <int BLOCK_KV>
FA_DEVICE Tiles<BLOCK_KV> tiles_of(const Work& work, int first_row, int rows) {
  const int end = first_row + rows < work.len_q ? first_row + rows : work.len_q;
  return Tiles<BLOCK_KV>(work.mask, first_row, end - 1);
}

// Views a tensor as panels of 64 columns, so that one box is `rows` whole rows of a head.
inline TensorMap map_of(const fa::TensorRef& tensor, int rows, Swizzle swizzle) {
  const int64_t batch = tensor.shape[0], heads = tensor.shape[1], len = tensor.shape[2];
  const int64_t dim = tensor.shape[3];
  // A dimension of size 1 may have any stride, because it has no second element.
  const auto stride = [&](int d) {
    return (tensor.shape[d] > 1 ? tensor.strides[d] : dim) * int64_t{sizeof(bf16)};
  };
  return make_tensor_map(static_cast<const bf16*>(tensor.data), {64, len, dim / 64, heads, batch},
                         {stride(2), 128, stride(1), stride(0)},
                         {64, rows, static_cast<int>(dim / 64), 1, 1}, swizzle);
}

// Throws InputError for problems that this kernel cannot address.
inline Params params_of(const fa::ForwardArgs& args, int block_q, int block_kv) {
  if (args.breaks != 0 && args.sinks != nullptr)
    throw fa::InputError("--break: this chapter has its breaks without sinks");
  check_scale_and_strides(args.scale, {&args.q, &args.k, &args.v, &args.o});
  const auto tensor = [](const fa::TensorRef& ref) {
    const auto bytes = [&](int d) { return ref.strides[d] * int64_t{sizeof(bf16)}; };
    return Tensor{static_cast<char*>(ref.data), bytes(0), bytes(1), bytes(2)};
  };
  const auto limit = [](int64_t side) {
    return side < 0 || side > UNLIMITED ? UNLIMITED : static_cast<int>(side);
  };
  const bool one_side = args.breaks & fa::SWIZZLE_ONE_SIDE;
  const int64_t longest = args.q_starts ? args.longest_q : args.q.shape[2];
  const int len_q = static_cast<int>(args.q.shape[2]), len_kv = static_cast<int>(args.k.shape[2]);
  const int64_t heads = args.q.shape[1], group = heads / args.k.shape[1];
  const int64_t sequences = args.q_starts ? args.sequences : args.q.shape[0];
  // K and V of these heads take 16 MB, a third of an H200's L2 cache, because Q and O also pass it.
  const int64_t head_bytes = 2 * args.k.shape[2] * args.k.shape[3] * int64_t{sizeof(bf16)};
  const int64_t q_tiles = longest > 0 ? (longest + block_q - 1) / block_q : 1;
  if (heads * sequences * q_tiles > std::numeric_limits<int>::max()) {
    throw fa::InputError(std::to_string(heads * sequences * q_tiles) +
                         " tiles of queries in all heads: up to 2147483647 in this chapter");
  }
  const int64_t together = (int64_t{16} << 20) / head_bytes * group;
  return {.Q_map = map_of(args.q, block_q, Swizzle::bytes_128),
          .K_map = map_of(args.k, block_kv, one_side ? Swizzle::none : Swizzle::bytes_128),
          .V_map = map_of(args.v, block_kv, Swizzle::bytes_128),
          .Q = tensor(args.q),
          .K = tensor(args.k),
          .V = tensor(args.v),
          .O = tensor(args.o),
          .LSE = static_cast<float*>(args.lse.data),
          .q_starts = args.q_starts,
          .kv_starts = args.kv_starts,
          .heads = static_cast<int>(heads),
          .group = static_cast<int>(group),
          .sequences = static_cast<int>(sequences),
          .q_tiles = static_cast<int>(q_tiles),
          .num_q_tiles = static_cast<int>(heads * sequences * q_tiles),
          .together = static_cast<int>(std::clamp<int64_t>(together, 1, heads * sequences)),
          .len_q = len_q,
          .scale = args.scale,
          .sinks = args.sinks,
          .mask = {len_kv, args.breaks & fa::TOP_LEFT_MASK ? 0 : len_kv - len_q,
                   limit(args.window_left), limit(args.window_right)}};
}

// [anchor: choice]
// Three consumers, unless tiles of 192 queries fill the last wave of blocks badly and tiles of 128
// do better. (With two consumers a block takes 5/6 of the time, not 2/3.)
inline int consumers_of(const fa::ForwardArgs& args, int multiprocessors) {
  const int64_t len_q = args.q_starts ? args.longest_q : args.q.shape[2];
  const int64_t heads = args.q.shape[1] * (args.q_starts ? args.sequences : args.q.shape[0]);
  const auto rounds = [&](int64_t block_q) {
    const int64_t tiles = heads * ((len_q + block_q - 1) / block_q);
    return (tiles + multiprocessors - 1) / multiprocessors;
  };
  return rounds(128) * 5 < rounds(192) * 6 ? 2 : 3;
}

// If rows of tiles are short, one block per SM processes one row after another, and loads the next
// while it finishes the last. Long rows get a block each, which starts as soon as another ends,
// because that balances better if a mask makes some rows shorter.
inline bool has_long_rows(const fa::ForwardArgs& args) { return args.k.shape[2] >= 2048; }
// [/anchor: choice]

}  // namespace FA_BACKEND::ch16
