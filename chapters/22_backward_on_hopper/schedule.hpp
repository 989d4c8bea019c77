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

  template <int BLOCK_Q, bool WINDOWED>
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
    const int first_query = work.kv_tile * BLOCK_KV - p.diagonal;
    work.first_q_tile = first_query > 0 ? first_query / BLOCK_Q : 0;
    work.end_q_tile = p.q_tiles;
    if constexpr (WINDOWED) {  // the last query that sees one of the keys
      const int end_key = work.kv_tile * BLOCK_KV + BLOCK_KV;
      const int last = (end_key < p.len_kv ? end_key : p.len_kv) - 1 - order.window_start;
      if (last < p.len_q) work.end_q_tile = last < 0 ? 0 : last / BLOCK_Q + 1;
    }
    const bool seen = work.first_q_tile < work.end_q_tile;
    work.count = seen ? (work.end_q_tile - work.first_q_tile) * p.group : 0;
    const bool rotates = order.rotation > 0 && work.kv_tile > 0;
    work.start = rotates ? p.q_tiles - work.kv_tile * order.rotation : work.first_q_tile;
    return work;
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

// Deterministic: the blocks add to a tile of dQ in a fixed order, and each tile has a counter of
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
  }
  FA_DEVICE void end() {
    tma_store_wait<0>();
    if (held == nullptr) return;
    store_release(held, held_turn + 1);
    held = nullptr;
  }
};

}  // namespace FA_BACKEND::ch22
