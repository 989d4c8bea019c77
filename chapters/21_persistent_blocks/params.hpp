#pragma once
// Chapter 16's parameters and order of tiles, plus the fields that a persistent block needs.

#include "breaks.hpp"
#include "chapters/16_maximum_on_demand/params.hpp"

namespace FA_BACKEND::ch21 {

using namespace ch16;

struct Params : ch16::Params {
  TensorMap O_map;  // a box is a warp's 16 rows and 64 columns
  int* claimed;     // tiles of queries that blocks have claimed, beyond each block's first
  int whole;        // tiles of queries before the last round's, which may be cut
  int late;         // tiles of queries of each head that come last
};

// [anchor: late]
// With a causal mask, the tiles of the first quarter of the queries come after those of all groups,
// for all heads together. They are the shortest, so that all blocks end at nearly the same time.
FA_DEVICE Place place_in_order(const Params& p, int index) {
  const int heads = p.heads * p.sequences, early = p.q_tiles - p.late;
  if (index >= heads * early) return place_of(index - heads * early, heads, p.late, heads);
  Place place = place_of(index, heads, early, p.together);
  place.q_tile += p.late;
  return place;
}
// [/anchor: late]

// [anchor: cut]
// A tile of queries, or a part of one, with up to 64 rows, for one warpgroup.
struct QTile : Work {
  int first_row;
};

// If the last round of tiles leaves most blocks without one, each of its tiles is cut into parts.
template <int BLOCK_Q, class Breaks>
FA_DEVICE QTile q_tile_of(const Params& p, int index, Breaks breaks) {
  constexpr int PARTS = BLOCK_Q / 64;
  const int part = index - p.whole;  // counts the parts of all tiles that are cut
  const Place place = place_in_order(p, part < 0 ? index : p.whole + part / PARTS);
  const Work work = work_at(p, place, breaks);
  QTile tile{work, work.q_tile * BLOCK_Q};
  if (part < 0) return tile;
  tile.first_row += part % PARTS * 64;
  const int end = tile.first_row + 64;
  tile.len_q = end < tile.len_q ? end : tile.len_q;  // other warpgroups have no rows
  return tile;
}
// [/anchor: cut]

// [anchor: last_first]
// Without a mask, the last tile of keys comes first, then the others in order. So scores
// that rise or fall along the sequence are largest in one of the first two tiles.
FA_DEVICE bool sees_all(const Params& p) {
  return p.mask.left == UNLIMITED && p.mask.right == UNLIMITED;
}
// Returns the number of the n-th tile to visit.
template <int BLOCK_KV>
FA_DEVICE int key_tile(const Params& p, const Tiles<BLOCK_KV>& tiles, int n) {
  if (!sees_all(p)) return tiles.begin + n;
  return n == 0 ? tiles.end - 1 : n - 1;
}
// [/anchor: last_first]

inline Params params_of(const fa::ForwardArgs& args, int block_q, int block_kv, int blocks) {
  const auto& [data, dtype, shape, strides] = args.o;
  const auto stride = [&, &shape = shape, &strides = strides](int d) {
    return (shape[d] > 1 ? strides[d] : shape[3]) * int64_t{sizeof(bf16)};
  };
  Params params{ch16::params_of(args, block_q, block_kv),
                make_tensor_map(static_cast<const bf16*>(data),
                                {64, shape[2], shape[3] / 64, shape[1], shape[0]},
                                {stride(2), 128, stride(1), stride(0)}, {64, 16, 1, 1, 1},
                                Swizzle::bytes_128),
                reinterpret_cast<int*>(args.workspace), 0, 0};
  // Chapter 16's groups of heads, whose K and V have up to 16 MB, but with at most 16 heads of K
  // and V, because if rows are short, Q and O take as much of the L2 cache.
  params.together = std::min(params.together, 16 * params.group);
  if (params.mask.right != UNLIMITED && params.mask.left == UNLIMITED)
    params.late = params.q_tiles / 4;
  const int parts = block_q / 64, rest = params.num_q_tiles % blocks;
  const int cut = params.num_q_tiles > blocks && rest * parts <= blocks ? rest : 0;
  params.whole = params.num_q_tiles - cut;
  params.num_q_tiles += cut * (parts - 1);
  return params;
}

// [anchor: ticket]
// The producer describes a tile of queries to the consumers by a ticket in shared memory. A
// consumer reads it again where it needs it, because its loop has no registers to keep it.
struct alignas(16) FourInts {
  int word[4];
};
constexpr uint32_t TICKET_BYTES = 2 * sizeof(FourInts);

FA_DEVICE void write_ticket(uint32_t smem, int index, const QTile& work) {
  store_shared<FourInts>(smem, {index, work.first_row, work.head, work.batch});
  store_shared<FourInts>(smem + 16,
                         {work.q_start, work.len_q, work.mask.len_kv, work.mask.diagonal});
}
FA_DEVICE int read_ticket(uint32_t smem, int word) {
  // Equal in all lanes. The shuffle tells the compiler, so that loops up to it count in uniform
  // registers, and so do the descriptors that depend on their counters.
  return shfl(load_shared<int>(smem + word * 4), 0);
}
FA_DEVICE QTile read_ticket(uint32_t smem, const Params& params) {
  const auto word = [&](int i) { return read_ticket(smem, i); };
  return {{0,
           word(2),
           word(3),
           word(4),
           0,
           word(5),
           {word(6), word(7), params.mask.left, params.mask.right}},
          word(1)};
}
// [/anchor: ticket]

}  // namespace FA_BACKEND::ch21
