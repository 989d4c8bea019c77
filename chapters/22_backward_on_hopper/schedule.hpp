#pragma once
// Decides which tiles a block visits, in which order, and when it may add to dQ.

#include "products.hpp"

namespace FA_BACKEND::ch22 {

// The order of the blocks, and the order of the tiles of queries in each block.
struct Order {
  int heads_at_once;  // heads of K and V whose tiles of keys alternate in the grid
  int rotation;       // the block of key tile n starts n * rotation tiles of queries earlier; or 0
  bool last_first;    // tiles of keys in descending order
  int window_start;   // query i sees the keys from i + window_start
};
constexpr int NO_START = -ch10::EVERY_KEY;

// A block's tile of keys, and the tiles of queries that see one of its keys. The block visits the
// tiles of one head after another, each time in a circle from `start`.
struct Work {
  int batch, kv_head, kv_tile;
  int first_q_tile, end_q_tile, start, count;

  // Returns the head and the tile of keys of this block.
  FA_DEVICE static Work of_block(const Params& p, const Order& order) {
    const int group_blocks = order.heads_at_once * p.kv_tiles;
    const int first_head = block_index() / group_blocks * order.heads_at_once;
    const int in_group = block_index() % group_blocks;
    const int heads_left = p.batch_kv_heads - first_head;
    const int heads = heads_left < order.heads_at_once ? heads_left : order.heads_at_once;
    const int head = first_head + in_group % heads, kv_heads = p.heads / p.group;

    Work work;
    work.batch = head / kv_heads;
    work.kv_head = head % kv_heads;
    work.kv_tile = order.last_first ? p.kv_tiles - 1 - in_group / heads : in_group / heads;
    return work;
  }
  // Finds the tiles of queries that see one of the keys.
  template <int BLOCK_Q, bool WINDOWED>
  FA_DEVICE void find_queries(const Params& p, const Order& order) {
    const int first_query = kv_tile * BLOCK_KV - p.diagonal;
    first_q_tile = first_query > 0 ? first_query / BLOCK_Q : 0;
    end_q_tile = p.q_tiles;
    if constexpr (WINDOWED) {  // the last query that sees one of the keys
      const int end_key = kv_tile * BLOCK_KV + BLOCK_KV;
      const int last = (end_key < p.len_kv ? end_key : p.len_kv) - 1 - order.window_start;
      if (last < p.len_q) end_q_tile = last < 0 ? 0 : last / BLOCK_Q + 1;
    }
    count = first_q_tile < end_q_tile ? (end_q_tile - first_q_tile) * p.group : 0;
    const bool rotates = order.rotation > 0 && kv_tile > 0;
    start = rotates ? p.q_tiles - kv_tile * order.rotation : first_q_tile;
  }
};

// With packed sequences, the tiles of sequence n are numbered starting at starts[n] / ROWS + n, and
// each sequence has at least one number. Returns the sequence of a number.
template <int ROWS>
FA_DEVICE int sequence_of(const int* starts, int sequences, int number) {
  int low = 0, high = sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    const bool after = load_global(starts + middle) / ROWS + middle > number;
    (after ? high : low) = middle;
  }
  return low;
}

// For chapter 10's preprocess, the rows of one of its tiles, BLOCK_Q / ch10::BLOCK_Q of which have
// one number here. Those that no sequence has are empty.
template <int BLOCK_Q>
struct PackedRows {
  int first, end;
  FA_DEVICE PackedRows(const Params& p, int q_tile) {
    const int row = q_tile * ch10::BLOCK_Q, number = row / BLOCK_Q;
    const int n = sequence_of<BLOCK_Q>(p.q_starts, p.sequences, number);
    const int q_start = load_global(p.q_starts + n);
    first = q_start + row - (q_start / BLOCK_Q + n) * BLOCK_Q;
    end = load_global(p.q_starts + n + 1);
  }
};

// Also stores the summands of each row.
template <class RowsOfTile>
struct SummandRows : RowsOfTile {
  FA_DEVICE SummandRows(const Params& p, int q_tile) : RowsOfTile(p, q_tile) {}
  FA_DEVICE void store_summands(const Params& p, int64_t row, float LSE_log2, float D) const {
    store_global(static_cast<ch10::Chunk*>(p.summands) + row,
                 summands_of(LSE_log2, D, p.scale_log2));
  }
};

// The part of the tensors that a block sees, which is all rows or those of a packed sequence. `p`
// and `order` are those of the sequence.
template <bool PACKED, int BLOCK_Q>
struct Sequence {
  const Params& p;
  const Order& order;
  static constexpr int q_start = 0, kv_start = 0;

  FA_DEVICE Sequence(const Params& whole, const Order& whole_order, Work&)
      : p(whole), order(whole_order) {}
  FA_DEVICE int tile_index(const Work& work, int head, int q_tile) const {
    return static_cast<int>(ch10::tile_index(p, work.batch, head, q_tile));
  }
};

template <int BLOCK_Q>
struct Sequence<true, BLOCK_Q> {
  Params p;
  Order order;
  int q_start, kv_start;  // rows of the tensors before the sequence's first
  int first_tile, head_tiles;

  FA_DEVICE Sequence(const Params& whole, const Order& whole_order, Work& work)
      : p(whole), order(whole_order), head_tiles(whole.q_tiles) {
    const int n = shfl(sequence_of<BLOCK_KV>(p.kv_starts, p.sequences, work.kv_tile), 0);
    q_start = load_global(p.q_starts + n);
    kv_start = load_global(p.kv_starts + n);
    p.len_q = load_global(p.q_starts + n + 1) - q_start;
    p.len_kv = load_global(p.kv_starts + n + 1) - kv_start;
    p.q_tiles = ceil_div(p.len_q, BLOCK_Q);
    p.kv_tiles = ceil_div(p.len_kv, BLOCK_KV);
    const int aligned = p.len_kv - p.len_q;
    if (p.diagonal != ch10::EVERY_KEY) p.diagonal += aligned;
    if (order.window_start != NO_START) order.window_start += aligned;
    first_tile = q_start / BLOCK_Q + n;
    work.kv_tile -= kv_start / BLOCK_KV + n;
  }
  FA_DEVICE int tile_index(const Work&, int head, int q_tile) const {
    return head * head_tiles + first_tile + q_tile;
  }
};

// The tile of queries that a block is processing.
struct Place {
  int head, q_tile;

  FA_DEVICE Place(const Work& work, const Params& p)
      : head(work.kv_head * p.group), q_tile(work.start) {}
  FA_DEVICE void advance(const Work& work) {
    q_tile = q_tile + 1 == work.end_q_tile ? work.first_q_tile : q_tile + 1;
    if (q_tile == work.start) ++head;
  }
};

// If deterministic, the blocks add to a tile of dQ in a fixed order, and each tile has a counter of
// the blocks that have added. Only the thread that adds uses this.
template <bool DETERMINISTIC, int BLOCK_Q>
struct Turn {
  const Params& p;
  const Work& work;
  const Order& order;
  int* held = nullptr;  // counter of the previous tile, whose adds may be incomplete
  int held_turn = 0;

  // Returns how many blocks add to this tile of queries before this one does.
  FA_DEVICE int turn_of(int q_tile) const {
    const int n = work.kv_tile;
    if (order.rotation > 0) {  // Block n adds in its iteration q_tile + n * rotation, mod q_tiles.
      const int first = ceil_div(p.q_tiles - q_tile, order.rotation);  // first block for which that
                                                                       // wraps around
      if (n >= first) return n - first;
      return first < p.kv_tiles ? n + p.kv_tiles - first : n;
    }
    const int last = (q_tile * BLOCK_Q + BLOCK_Q - 1 + p.diagonal) / BLOCK_KV;  // last key tile
                                                                                // that it sees
    return (last < p.kv_tiles ? last : p.kv_tiles - 1) - n;
  }
  // Waits before the adds to this tile. First it hands on the previous tile, because another block
  // may be waiting for it.
  template <class Breaks>
  FA_DEVICE void await(int tile, int q_tile, Breaks breaks) {
    if (!DETERMINISTIC || breaks.has(fa::DQ_OUT_OF_TURN)) return;
    const int turn = turn_of(q_tile);
    if (load_acquire(p.turns + tile) == turn) return;
    end();
    while (load_acquire(p.turns + tile) != turn) {
    }
  }
  // Called after the two groups of adds to this tile have been issued. The adds to the previous
  // tile are complete, except for the last two groups.
  FA_DEVICE void pass(int tile, int q_tile) {
    if (!DETERMINISTIC) return;
    if (held != nullptr) {
      tma_store_wait<2>();
      store_release(held, held_turn + 1);
    }
    held = p.turns + tile;
    held_turn = turn_of(q_tile);
    if (order.rotation == 1) end();  // the next block comes to this tile one iteration later
  }
  FA_DEVICE void end() {
    tma_store_wait<0>();
    if (held == nullptr) return;
    store_release(held, held_turn + 1);
    held = nullptr;
  }
};

}  // namespace FA_BACKEND::ch22
