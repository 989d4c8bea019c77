#pragma once
// Cooperative groups up to the grid. A tile is made of neighbouring lanes of a warp, or of neighbouring
// warps; coalesced_threads are the lanes that __activemask names.

#include "cuda_pipeline.h"
#include "cuda_runtime.h"

extern "C" __device__ void emucuda_grid_sync();

extern "C" __device__ void emucuda_barrier_sync_cnt(int barrier, int threads);

extern "C" __device__ void emucuda_barrier_cluster_arrive();
extern "C" __device__ void emucuda_barrier_cluster_wait();
extern "C" __device__ void* emucuda_mapa(const void* p, int rank);
extern "C" __device__ int emucuda_getctarank(const void* p);
#define EMUCUDA_CLUSTER(x)                                              \
  extern "C" __device__ int emucuda_read_ptx_sreg_cluster_ctaid_##x(); \
  extern "C" __device__ int emucuda_read_ptx_sreg_cluster_nctaid_##x();
EMUCUDA_CLUSTER(x)
EMUCUDA_CLUSTER(y)
EMUCUDA_CLUSTER(z)
#undef EMUCUDA_CLUSTER

namespace cooperative_groups {

namespace detail {
constexpr int kTileBytes = 16;  // size per warp, for a tile of several warps
}

// Shared memory for tiles of several warps.
template <unsigned Threads = 1024>
struct block_tile_memory {
  alignas(16) char of_warp[(Threads + 31) / 32][detail::kTileBytes];
};

class thread_block {
 public:
  __device__ explicit thread_block(void* memory = nullptr) : memory_(memory) {}
  __device__ void* memory() const { return memory_; }  // the block_tile_memory, or null
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

 private:
  void* memory_;
};
__device__ inline thread_block this_thread_block() { return thread_block(); }
template <unsigned Threads>
__device__ thread_block this_thread_block(block_tile_memory<Threads>& memory) {
  return thread_block(&memory);
}

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

// The blocks of a cluster, and their shared memory.
class cluster_group {
 public:
  struct arrival_token {};
  __device__ static arrival_token barrier_arrive() {
    emucuda_barrier_cluster_arrive();
    return {};
  }
  __device__ static void barrier_wait(arrival_token&& = {}) { emucuda_barrier_cluster_wait(); }
  __device__ static void sync() { barrier_wait(barrier_arrive()); }
  __device__ static dim3 block_index() {
    return dim3(emucuda_read_ptx_sreg_cluster_ctaid_x(), emucuda_read_ptx_sreg_cluster_ctaid_y(),
                emucuda_read_ptx_sreg_cluster_ctaid_z());
  }
  __device__ static dim3 dim_blocks() {
    return dim3(emucuda_read_ptx_sreg_cluster_nctaid_x(), emucuda_read_ptx_sreg_cluster_nctaid_y(),
                emucuda_read_ptx_sreg_cluster_nctaid_z());
  }
  __device__ static unsigned block_rank() {
    const dim3 at = block_index(), of = dim_blocks();
    return (at.z * of.y + at.y) * of.x + at.x;
  }
  __device__ static unsigned num_blocks() { return dim_blocks().x * dim_blocks().y * dim_blocks().z; }
  __device__ static unsigned thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
  __device__ static unsigned num_threads() { return num_blocks() * thread_block::size(); }
  __device__ static unsigned size() { return num_threads(); }
  template <class T>
  __device__ static T* map_shared_rank(T* p, int rank) {
    return (T*)emucuda_mapa(p, rank);
  }
  __device__ static unsigned query_shared_rank(const void* p) { return emucuda_getctarank(p); }
};
__device__ inline cluster_group this_cluster() { return {}; }

namespace detail {

__device__ inline unsigned lane() { return __nvvm_read_ptx_sreg_laneid(); }

// A value of any type, word by word. shuffle(word) returns the word of the other lane.
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
  __device__ unsigned mask() const { return mask_; }
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
  __device__ unsigned lane_of(unsigned rank) const {  // index of the rank-th lane in the mask
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

template <unsigned Size, class Parent = void, bool Warps = (Size > 32)>
class thread_block_tile : public detail::lanes {
  static_assert((Size & (Size - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

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
// A tile of several warps. They meet at their own barrier.
template <unsigned Size, class Parent>
class thread_block_tile<Size, Parent, true> {
  static_assert(Size <= 1024 && (Size & (Size - 1)) == 0, "a tile has up to 1024 threads, a power of two");

 public:
  __device__ explicit thread_block_tile(void* memory) : memory_(memory) {}
  template <class Other>
  __device__ thread_block_tile(const thread_block_tile<Size, Other>& other) : memory_(other.memory()) {}
  __device__ void* memory() const { return memory_; }
  __device__ static constexpr unsigned size() { return Size; }
  __device__ static constexpr unsigned num_threads() { return Size; }
  __device__ static unsigned thread_rank() { return thread_block::thread_rank() & (Size - 1); }
  __device__ static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  __device__ static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
  __device__ static void sync() { emucuda_barrier_sync_cnt(1 + (int)meta_group_rank(), Size); }
  template <class T>
  __device__ T shfl(T value, int rank) const {
    T* slots = slots_of(value);
    if ((int)thread_rank() == rank) slots[0] = value;
    sync();
    const T result = slots[(rank / 32 - (int)thread_rank() / 32) * (int)(detail::kTileBytes / sizeof(T))];
    sync();
    return result;
  }
  __device__ int any(int predicate) const { return count(predicate != 0) != 0; }
  __device__ int all(int predicate) const { return count(predicate == 0) == 0; }
  // fold over all threads of the tile
  template <class T, class F>
  __device__ T reduce(T value, F&& fold) const {
    const thread_block_tile<32> warp;
    for (unsigned bits = 16; bits > 0; bits /= 2) value = fold(value, warp.shfl_xor(value, bits));
    T* slots = slots_of(value);
    if (detail::lane() == 0) slots[0] = value;
    sync();
    T* first = slots - (thread_rank() / 32) * (detail::kTileBytes / sizeof(T));
    T sum = *first;
    for (unsigned warp_rank = 1; warp_rank < Size / 32; ++warp_rank)
      sum = fold(sum, first[warp_rank * (detail::kTileBytes / sizeof(T))]);
    sync();
    return sum;
  }

 private:
  template <class T>
  __device__ T* slots_of(const T&) const {
    static_assert(detail::kTileBytes % sizeof(T) == 0, "a tile of several warps takes values of up to 16 bytes");
    return (T*)((char*)memory_ + thread_block::thread_rank() / 32 * detail::kTileBytes);
  }
  __device__ unsigned count(bool predicate) const {
    return reduce(predicate ? 1u : 0u, [](unsigned a, unsigned b) { return a + b; });
  }
  void* memory_;
};

template <unsigned Size, class Parent>
__device__ thread_block_tile<Size, Parent> tiled_partition(const Parent& parent) {
  if constexpr (Size > 32) {
    return thread_block_tile<Size, Parent>(parent.memory());
  } else {
    return {};
  }
}

// Any of the groups above, up to the block.
class thread_group {
 public:
  __device__ thread_group(const thread_block&) : mask_(0) {}
  __device__ thread_group(const detail::lanes& group) : mask_(group.mask()) {}
  __device__ void sync() const {
    if (mask_ == 0) {
      thread_block::sync();
    } else {
      __syncwarp(mask_);
    }
  }
  __device__ unsigned size() const { return mask_ == 0 ? thread_block::size() : __popc(mask_); }
  __device__ unsigned num_threads() const { return size(); }
  __device__ unsigned thread_rank() const {
    return mask_ == 0 ? thread_block::thread_rank() : detail::lanes(mask_).thread_rank();
  }
  __device__ static bool is_valid() { return true; }
  __device__ unsigned mask() const { return mask_; }

 private:
  unsigned mask_;  // lanes of the thread's warp, or 0 for the block
};
// Tiles of at most 32 threads, whose size is known at run time only.
__device__ inline thread_group tiled_partition(const thread_group& parent, unsigned size) {
  const unsigned tile =
      (size >= 32 ? 0xffffffff : (1u << size) - 1) << (size >= 32 ? 0 : detail::lane() & ~(size - 1));
  return detail::lanes(parent.mask() == 0 ? tile : tile & parent.mask());
}

// The threads of the group with the same label, or with the same answer.
template <class Group, class Label>
__device__ coalesced_group labeled_partition(const Group& group, Label label) {
  return coalesced_group(__match_any_sync(group.mask(), label));
}
template <class Group>
__device__ coalesced_group binary_partition(const Group& group, bool predicate) {
  const unsigned votes = __ballot_sync(group.mask(), predicate);
  return coalesced_group(predicate ? votes : group.mask() & ~votes);
}

template <class Group>
__device__ void sync(const Group& group) {
  group.sync();
}

// The group copies together, and wait() makes the copies visible to all of it.
template <class Group, class T>
__device__ void memcpy_async(const Group& group, T* to, const T* from, size_t bytes) {
  const size_t piece = ((size_t)to | (size_t)from | bytes) % 16 == 0 ? 16 : 4;
  if (((size_t)to | (size_t)from | bytes) % 4 == 0) {
    for (size_t at = group.thread_rank() * piece; at < bytes; at += group.size() * piece)
      __pipeline_memcpy_async((char*)to + at, (const char*)from + at, piece);
  } else {
    for (size_t at = group.thread_rank(); at < bytes; at += group.size()) ((char*)to)[at] = ((const char*)from)[at];
  }
  __pipeline_commit();
}
template <unsigned Pending, class Group>
__device__ void wait_prior(const Group& group) {
  __pipeline_wait_prior(Pending);
  group.sync();
}
template <class Group>
__device__ void wait(const Group& group) {
  wait_prior<0>(group);
}
template <class Group, class F, class... A>
__device__ void invoke_one(const Group& group, F&& f, A&&... a) {
  if (group.thread_rank() == 0) f(a...);
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
__device__ T reduce(const thread_block_tile<Size, Parent, true>& tile, T value, F&& fold) {
  return tile.reduce(value, fold);
}
template <unsigned Size, class Parent, class T, class F>
__device__ T reduce(const thread_block_tile<Size, Parent, false>& tile, T value, F&& fold) {
  for (unsigned bits = Size / 2; bits > 0; bits /= 2) value = fold(value, tile.shfl_xor(value, bits));
  return value;
}
template <class T, class F>
__device__ T reduce(const coalesced_group& group, T value, F&& fold) {
  T sum = group.shfl(value, 0);
  for (unsigned rank = 1; rank < group.size(); ++rank) sum = fold(sum, group.shfl(value, rank));
  return sum;
}
template <class Group, class T, class F>
__device__ T inclusive_scan(const Group& group, T value, F&& fold) {
  for (unsigned delta = 1; delta < group.size(); delta *= 2) {
    const T other = group.shfl_up(value, delta);
    if (group.thread_rank() >= delta) value = fold(other, value);
  }
  return value;
}
template <class Group, class T>
__device__ T inclusive_scan(const Group& group, T value) {
  return inclusive_scan(group, value, plus<T>());
}
template <class Group, class T, class F>
__device__ T exclusive_scan(const Group& group, T value, F&& fold) {
  const T before = group.shfl_up(inclusive_scan(group, value, fold), 1);
  return group.thread_rank() == 0 ? T{} : before;
}
template <class Group, class T>
__device__ T exclusive_scan(const Group& group, T value) {
  return exclusive_scan(group, value, plus<T>());
}

}  // namespace cooperative_groups
