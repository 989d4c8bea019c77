#pragma once
// Decoding on the CPU: a few new queries for each sequence, whose keys and values are in pages. The
// keys are divided into splits. Each split gives a separate softmax, and combine merges them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chapters/02_tiled_cpu/state.hpp"
#include "chapters/10_backward/cpu_tile.hpp"
#include "common/error.hpp"
#include "pages.hpp"
#include "splits.hpp"

namespace ch11 {

// One step of decoding for a batch, in the caller's memory. The keys of the new queries are already
// in the cache, at the end of their sequence: query i sees the first length - len_q + i + 1 keys.
template <class Real>
struct Step {
  int64_t batch, heads, kv_heads, len_q, dim;
  int64_t pages, page_size, columns;
  Real scale;
  const Real* Q;           // [batch, heads, len_q, dim]
  const Real* K_pages;     // [pages, kv_heads, page_size, dim]; rows without a key are not read
  const Real* V_pages;     // same shape
  const int32_t* table;    // [batch, columns]; entries after a sequence's pages are not read
  const int32_t* lengths;  // [batch]: number of keys
  // [batch, len_q]: bit j says whether a query also sees the key of query j, if that is earlier;
  // null: it sees them all
  const uint64_t* tree = nullptr;

  int64_t rows() const { return batch * heads * len_q; }  // number of rows of Q and of O
  int64_t rows_of_kv_head() const { return heads / kv_heads * len_q; }
  // Returns the first of the rows of Q that share a head of K and V. These rows are contiguous.
  int64_t first_row(int64_t sequence, int64_t kv_head) const {
    return (sequence * kv_heads + kv_head) * rows_of_kv_head();
  }
  bool sees(int64_t sequence, int64_t row, int64_t key) const {
    const int64_t query = row % len_q, token = key - (lengths[sequence] - len_q);
    return token < 0 || (token <= query &&
                         (tree == nullptr || (tree[sequence * len_q + query] >> token & 1) != 0));
  }
  // Returns the offset of a key in K_pages, and of its value in V_pages.
  int64_t offset(int64_t sequence, int64_t kv_head, int64_t key) const {
    const Place place = place_of({table + sequence * columns, size_t(columns)}, key, page_size);
    return ((place.page * kv_heads + kv_head) * page_size + place.row) * dim;
  }
};

// Throws InputError for invalid sizes, and for lengths and pages that the cache does not have.
template <class Real>
void validate(const Step<Real>& step) {
  check_table(step.batch, step.columns, step.page_size);
  check_at_least(1, step.kv_heads, "heads of K and V");
  check_at_least(1, step.heads, "heads of Q");
  check_at_least(1, step.len_q, "queries");
  check_at_least(1, step.dim, "dim");
  check_pages(step.pages);
  if (step.heads % step.kv_heads != 0) {
    throw fa::InputError(std::to_string(step.heads) + " heads of Q: expected a multiple of the " +
                         std::to_string(step.kv_heads) + " of K and V");
  }
  for (int64_t n = 0; n < step.batch; ++n) {
    const int64_t length = step.lengths[n], pages = ceil_div(length, step.page_size);
    check_at_least(0, length, "keys of a sequence");
    check_at_least(pages, step.columns, "pages of a sequence");
    for (int64_t i = 0; i < pages; ++i) {
      const int32_t page = step.table[n * step.columns + i];
      if (page >= 0 && page < step.pages) continue;
      throw fa::InputError("sequence " + std::to_string(n) + " has page " + std::to_string(page) +
                           " of " + std::to_string(step.pages));
    }
  }
}

// state = merge(state, AttentionState(x, v)), as in chapter 02, without a new state for each key.
// The value of a masked key, x = −inf, is not read, because 0 * NaN is NaN.
template <class Real>
void add_key(ch02::AttentionState<Real>& state, Real x, const Real* v) {
  if (x == -ch02::kInfinity<Real>) return;
  const Real m = std::max(state.m, x);
  const Real rescale = ch02::exp_minus(state.m, m), p = ch02::exp_minus(x, m);
  state.m = m;
  state.l = rescale * state.l + p;
  for (size_t d = 0; d < state.o.size(); ++d) state.o[d] = rescale * state.o[d] + p * v[d];
}

// Resets the state to no key, in its existing memory.
template <class Real>
void clear(ch02::AttentionState<Real>& state) {
  state.m = -ch02::kInfinity<Real>;
  state.l = 0;
  std::fill(state.o.begin(), state.o.end(), Real(0));
}

// O = o / l and LSE = log Σ e^x, or 0 and −inf if no key was seen. O is [dim]. l decides that and
// not m, which stays −inf if the first score is NaN: a NaN in a visible key must show.
template <class Real>
void finish(const ch02::AttentionState<Real>& state, Real* O, Real* LSE) {
  const bool seen = state.l != 0;
  for (size_t d = 0; d < state.o.size(); ++d) O[d] = seen ? state.o[d] / state.l : Real(0);
  *LSE = seen ? state.m + std::log(state.l) : -ch02::kInfinity<Real>;
}

// Attention of the rows that share a head of K and V to the keys of one split, which is the work of
// one block on a GPU. Writes O [batch * heads * len_q, dim], divided by l, and LSE of this split
// for these rows only. `states` has one state per row.
template <class Real>
void attend_split(const Step<Real>& step, int64_t sequence, int64_t kv_head, Range keys,
                  std::span<ch02::AttentionState<Real>> states, Real* O, Real* LSE) {
  const int64_t dim = step.dim, first_row = step.first_row(sequence, kv_head);
  for (auto& state : states) clear(state);
  for (int64_t key = keys.begin; key < keys.end; ++key) {  // read once, for all rows
    const int64_t offset = step.offset(sequence, kv_head, key);
    for (int64_t i = 0; i < step.rows_of_kv_head(); ++i) {
      if (!step.sees(sequence, first_row + i, key)) continue;
      const Real* const q = step.Q + (first_row + i) * dim;
      add_key(states[i], step.scale * fa::ch10::dot(q, step.K_pages + offset, dim),
              step.V_pages + offset);
    }
  }
  for (int64_t i = 0; i < step.rows_of_kv_head(); ++i) {
    finish(states[i], O + (first_row + i) * dim, LSE + first_row + i);
  }
}

// [anchor: combine]
// A split is one key whose score is its LSE and whose value is its O, because e^LSE is the sum of
// its weights. O_splits [splits, rows, dim], LSE_splits [splits, rows]; O [rows, dim], LSE [rows].
template <class Real>
void combine(int64_t splits, int64_t rows, int64_t dim, const Real* O_splits,
             const Real* LSE_splits, Real* O, Real* LSE) {
  ch02::AttentionState<Real> state(dim);
  for (int64_t row = 0; row < rows; ++row) {
    clear(state);
    for (int64_t i = row; i < splits * rows; i += rows) {
      add_key(state, LSE_splits[i], O_splits + i * dim);
    }
    finish(state, O + row * dim, LSE + row);
  }
}
// [/anchor: combine]

// Results of the splits, which combine merges. One Partials serves any number of steps.
template <class Real>
struct Partials {
  std::vector<Real> O, LSE;                        // [splits, rows, dim], [splits, rows]
  std::vector<ch02::AttentionState<Real>> states;  // [rows per head of K and V]

  void resize(const Step<Real>& step, int64_t splits) {
    O.resize(splits * step.rows() * step.dim);
    LSE.resize(splits * step.rows());
    if (!states.empty() && std::ssize(states[0].o) != step.dim) states.clear();
    states.resize(step.rows_of_kv_head(), ch02::AttentionState<Real>(step.dim));
  }
};

// Computes O [batch, heads, len_q, dim] and LSE [batch, heads, len_q]. Each sequence is divided
// into `splits` pieces of whole tiles of `block_kv` keys, whatever the pages are. Short sequences
// have empty splits. A fully masked row has O 0 and LSE −inf. Throws InputError if validate does.
template <class Real>
void decode(const Step<Real>& step, int64_t splits, int64_t block_kv, Partials<Real>& partials,
            Real* O, Real* LSE) {
  validate(step);
  check_at_least(1, splits, "splits");
  partials.resize(step, splits);
  for (int64_t split = 0; split < splits; ++split) {
    for (int64_t n = 0; n < step.batch; ++n) {
      const Range keys = keys_of_split(split, splits, step.lengths[n], block_kv);
      for (int64_t kv_head = 0; kv_head < step.kv_heads; ++kv_head) {
        attend_split(step, n, kv_head, keys, std::span(partials.states),
                     partials.O.data() + split * step.rows() * step.dim,
                     partials.LSE.data() + split * step.rows());
      }
    }
  }
  combine(splits, step.rows(), step.dim, partials.O.data(), partials.LSE.data(), O, LSE);
}

}  // namespace ch11
