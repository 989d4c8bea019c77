#pragma once
// Describes chapter 11's kernels to host code.

#include "breaks.hpp"
#include "chapters/09_masks_and_shapes/chapter.hpp"
#include "common/error.hpp"
#include "splits.hpp"

namespace emulator::ch11 {
extern const fa::KernelBuild build;
}
namespace gpu::ch11 {
extern const fa::KernelBuild build;
}

namespace ch11 {

constexpr int kTileRows = 16;          // queries of all heads that share a head of K and V
constexpr int kMultiprocessors = 132;  // SMs of an H200, which the emulator assumes

// Returns the keys that a block's warps process side by side.
constexpr int64_t tile_keys(int64_t dim) { return dim <= 64 ? 128 : 64; }

// work_items returns the number of blocks without splitting, and choose_splits the number of splits
// per sequence. `longest` counts keys in use. A partial result costs less here than an idle SM: it
// takes 95 % of the best efficiency, where FlashAttention accepts 85 %.
inline int64_t work_items(const fa::Shape& shape, int64_t kv_heads) {
  return shape.batch * kv_heads * ceil_div(shape.heads / kv_heads * shape.q, kTileRows);
}
// With a prefix the rows of all sequences share tiles, as if they were heads of one. The prefix is
// read from L2 only once, so the latency of more instructions has to be hidden, and two blocks per
// SM do that better than one (121 -> 83 us in docs/measurements/h200/ch11_notes).
inline fa::DecodeSplits choose_splits(const fa::Shape& shape, int64_t kv_heads, int64_t longest,
                                      int64_t prefix, int multiprocessors) {
  const auto choose = [&](const fa::Shape& rows, int64_t keys, int blocks_at_a_time) {
    return splits_for(work_items(rows, kv_heads), blocks_at_a_time,
                      ceil_div(keys, tile_keys(shape.dim)), 0.95);
  };
  if (prefix == 0) return {choose(shape, longest, multiprocessors)};
  const fa::Shape together{1, shape.batch * shape.heads, shape.q, prefix, shape.dim};
  return {std::min(choose(shape, longest - prefix, multiprocessors), kMostSplits / 2),
          std::min(choose(together, prefix, 2 * multiprocessors), kMostSplits / 2)};
}

// Throws InputError unless the head size is a multiple of 8 up to 128 and an int holds the lengths.
inline void check_shape(const fa::Shape& shape) {
  if (shape.dim % 8 != 0 || shape.dim > 128) {
    throw fa::InputError("head size " + std::to_string(shape.dim) +
                         ": this chapter's kernels take multiples of 8 up to 128");
  }
  if (shape.batch > 65535 || shape.heads * ceil_div(shape.q, kTileRows) > 65535) {
    throw fa::InputError("shape " + to_string(shape) +
                         ": sequences, and heads x tiles of 16 queries, may be up to 65535");
  }
  fa::check_kernel_lengths(shape);
}

inline constexpr fa::Kernel KERNEL{
    .name = "ch11_decoding",
    .emulator = &emulator::ch11::build,
    .gpu = &gpu::ch11::build,
    .features =
        fa::CAUSAL | fa::LSE | fa::KV_HEADS | fa::STRIDES | fa::FP16 | fa::REPEATS | fa::SINKS,
    .check_shape = check_shape,
    .own_breaks = fa::DECODE_BREAKS,
    .undefined_on_a_gpu = fa::PAGE_OFF_BY_ONE | fa::STALE_VALUES | fa::SHARED_PARTIAL,
    .choose_splits = choose_splits,
};

}  // namespace ch11
