#pragma once
// Cooperative groups up to the grid. A tile is made of neighbouring lanes of a warp; coalesced_threads
// are the lanes that __activemask names.

#include "cuda_runtime.h"

extern "C" __device__ void emucuda_grid_sync();

namespace cooperative_groups {

class thread_block {
 public:
  __device__ static void sync() { __syncthreads(); }
  __device__ static unsigned thread_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  }
  __device__ static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ static unsigned num_threads() { return size(); }
  __device__ static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  __device__ static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  __device__ static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  __device__ static dim3 dim_threads() { return group_dim(); }
};
__device__ inline thread_block this_thread_block() { return {}; }

class grid_group {
 public:
  __device__ static void sync() {
    __syncthreads();
    if (thread_block::thread_rank() == 0) emucuda_grid_sync();
    __syncthreads();
  }
  __device__ static bool is_valid() { return true; }
  __device__ static unsigned long long num_blocks() {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  __device__ static unsigned long long block_rank() {
    return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  __device__ static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  __device__ static unsigned long long size() { return num_blocks() * thread_block::size(); }
  __device__ static unsigned long long num_threads() { return size(); }
};
__device__ inline grid_group this_grid() { return {}; }

namespace detail {

__device__ inline unsigned lane() { return __nvvm_read_ptx_sreg_laneid(); }

// A value of any type, word by word: shuffle(word) is the word of the other lane.
template <class T, class F>
__device__ T by_words(const T& value, F shuffle) {
  unsigned words[(sizeof(T) + 3) / 4] = {};
  memcpy(words, &value, sizeof(T));
  for (unsigned& word : words) word = shuffle(word);
  T result;
  memcpy(&result, words, sizeof(T));
  return result;
}

// Lanes of one warp, named by a mask.
class lanes {
 public:
  __device__ explicit lanes(unsigned mask) : mask_(mask) {}
  __device__ unsigned thread_rank() const { return __popc(mask_ & ((1u << lane()) - 1)); }
  __device__ unsigned size() const { return __popc(mask_); }
  __device__ unsigned num_threads() const { return size(); }
  __device__ void sync() const { __syncwarp(mask_); }
  __device__ int any(int predicate) const { return __any_sync(mask_, predicate); }
  __device__ int all(int predicate) const { return __all_sync(mask_, predicate); }
  __device__ unsigned ballot(int predicate) const { return packed(__ballot_sync(mask_, predicate)); }
  template <class T>
  __device__ unsigned match_any(T value) const {
    return packed(__match_any_sync(mask_, value));
  }
  template <class T>
  __device__ T shfl(T value, int rank) const {
    return by_words(value, [&](unsigned word) { return __shfl_sync(mask_, word, lane_of(rank)); });
  }
  template <class T>
  __device__ T shfl_down(T value, unsigned delta) const {
    const unsigned to = thread_rank() + delta;
    return shfl(value, to < size() ? to : thread_rank());
  }
  template <class T>
  __device__ T shfl_up(T value, unsigned delta) const {
    const unsigned own = thread_rank();
    return shfl(value, own >= delta ? own - delta : own);
  }
  template <class T>
  __device__ T shfl_xor(T value, unsigned bits) const {
    return shfl(value, thread_rank() ^ bits);
  }

 protected:
  __device__ unsigned lane_of(unsigned rank) const {  // of the rank-th lane in the mask
    if (mask_ == 0xffffffff) return rank & 31;
    unsigned mask = mask_;
    for (; rank > 0; --rank) mask &= mask - 1;
    return mask == 0 ? lane() : __ffs(mask) - 1;
  }
  __device__ unsigned packed(unsigned votes) const {  // bit i: the lane of rank i
    unsigned result = 0, rank = 0;
    for (unsigned mask = mask_; mask != 0; mask &= mask - 1, ++rank) {
      if ((votes & mask & -mask) != 0) result |= 1u << rank;
    }
    return result;
  }
  unsigned mask_;
};

}  // namespace detail

class coalesced_group : public detail::lanes {
 public:
  using lanes::lanes;
};
__device__ inline coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

template <unsigned Size, class Parent = void>
class thread_block_tile : public detail::lanes {
  static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

 public:
  __device__ thread_block_tile()
      : lanes(Size == 32 ? 0xffffffff : ((1u << (Size & 31)) - 1) << (detail::lane() & ~(Size - 1))) {}
  template <class Other>
  __device__ thread_block_tile(const thread_block_tile<Size, Other>&) : thread_block_tile() {}
  __device__ static constexpr unsigned size() { return Size; }
  __device__ static constexpr unsigned num_threads() { return Size; }
  __device__ static unsigned thread_rank() { return detail::lane() & (Size - 1); }
  __device__ static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  __device__ static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
  template <class T>
  __device__ T shfl(T value, int rank) const {
    return detail::by_words(value, [&](unsigned word) { return __shfl_sync(mask_, word, rank, Size); });
  }
  template <class T>
  __device__ T shfl_down(T value, unsigned delta) const {
    return detail::by_words(value, [&](unsigned word) { return __shfl_down_sync(mask_, word, delta, Size); });
  }
  template <class T>
  __device__ T shfl_up(T value, unsigned delta) const {
    return detail::by_words(value, [&](unsigned word) { return __shfl_up_sync(mask_, word, delta, Size); });
  }
  template <class T>
  __device__ T shfl_xor(T value, unsigned bits) const {
    return detail::by_words(value, [&](unsigned word) { return __shfl_xor_sync(mask_, word, bits, Size); });
  }
};
template <unsigned Size, class Parent>
__device__ thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
  return {};
}
template <class Group>
__device__ void sync(const Group& group) {
  group.sync();
}

template <class T>
struct plus {
  __device__ T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct greater {
  __device__ T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct less {
  __device__ T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct bit_and {
  __device__ T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
  __device__ T operator()(T a, T b) const { return a | b; }
};
template <class T>
struct bit_xor {
  __device__ T operator()(T a, T b) const { return a ^ b; }
};
template <unsigned Size, class Parent, class T, class F>
__device__ T reduce(const thread_block_tile<Size, Parent>& tile, T value, F&& fold) {
  for (unsigned bits = Size / 2; bits > 0; bits /= 2) value = fold(value, tile.shfl_xor(value, bits));
  return value;
}
template <class T, class F>
__device__ T reduce(const coalesced_group& group, T value, F&& fold) {
  T sum = group.shfl(value, 0);
  for (unsigned rank = 1; rank < group.size(); ++rank) sum = fold(sum, group.shfl(value, rank));
  return sum;
}
template <unsigned Size, class Parent, class T, class F>
__device__ T inclusive_scan(const thread_block_tile<Size, Parent>& tile, T value, F&& fold) {
  for (unsigned delta = 1; delta < Size; delta *= 2) {
    const T other = tile.shfl_up(value, delta);
    if (tile.thread_rank() >= delta) value = fold(other, value);
  }
  return value;
}

}  // namespace cooperative_groups
