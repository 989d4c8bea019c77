#pragma once
// Small kernels with Hopper's instructions, and the inputs to run them on. test_hopper.cu runs this
// source on a card and on the emulator and compares every element.

#include "common/error.hpp"
#include "common/simt/hopper_example.hpp"

namespace fa {

// A kernel and its arguments. `in` and `out` are memory of the side that runs it.
struct HopperTask {
  enum Kind { product, product_registers, copy, parities, roles, clusters, example };
  Kind kind;
  int n = 0;  // columns of a product, or keys of the example
  bool fp16 = false;
  bool e4m3 = false;  // two e4m3 values in place of each 16-bit value
  Swizzle swizzle_a{}, swizzle_b{};
  bool mn_major_a = false, mn_major_b = false;
  int rank = 0, row = 0, at[5] = {};
  int bytes = 0;
  void* in[3] = {};
  void* out[3] = {};
};

}  // namespace fa

namespace FA_BACKEND::test_hopper {

constexpr int NUM_THREADS = 128;
constexpr uint32_t OPERAND_BYTES = 64 * 1024;  // shared memory per block; B is stored in the upper
                                               // part, at B_OFFSET
constexpr uint32_t B_OFFSET = 16 * 1024;

// Returns where element (row, k) of an operand [rows][16] is stored, and the operand's descriptor.
struct Layout {
  Swizzle swizzle;
  bool mn_major;

  FA_HOST_DEVICE uint32_t place(int rows, int row, int k) const {
    const int span = static_cast<int>(fa::swizzle_span(swizzle)), line = span / 2;
    int dense = row * span + k * 2;
    if (mn_major) {
      dense = row / line * 16 * span + k * span + row % line * 2;
    } else if (swizzle == Swizzle::none) {
      dense = k / 8 * rows * 16 + row * 16 + k % 8 * 2;
    }
    return fa::swizzled(swizzle, static_cast<uint32_t>(dense));
  }
  FA_HOST_DEVICE uint64_t descriptor(int rows, uint32_t address) const {
    const uint32_t span = fa::swizzle_span(swizzle);
    if (!mn_major) return wgmma_descriptor(address, rows * 16, 8 * span, swizzle);
    return swizzle == Swizzle::none ? wgmma_descriptor(address, 8 * span, 16 * span, swizzle)
                                    : wgmma_descriptor(address, 16 * span, 8 * span, swizzle);
  }
};

// D = A B for one k-step. D is stored in the order of the threads' registers: [N / 2][NUM_THREADS].
// W is the type that T stands for, because two e4m3 take the place of a 16-bit value.
template <int N, class T, class W, Major MAJOR_A, Major MAJOR_B>
FA_KERNEL FA_LAUNCH_BOUNDS(NUM_THREADS, 1)
void multiply(Layout a, Layout b, const T* A, const T* B, float* D) {
  for (int i = thread_index(); i < 64 * 16; i += NUM_THREADS)
    store_shared<T>(dynamic_smem() + a.place(64, i / 16, i % 16), load_global(A + i));
  for (int i = thread_index(); i < N * 16; i += NUM_THREADS)
    store_shared<T>(dynamic_smem() + B_OFFSET + b.place(N, i / 16, i % 16), load_global(B + i));
  fence_proxy_async();
  block_sync();
  // After the fence there is nothing but wgmma. Otherwise ptxas would insert another fence (C7519).
  const uint64_t descriptor_a = a.descriptor(64, dynamic_smem());
  const uint64_t descriptor_b = b.descriptor(N, dynamic_smem() + B_OFFSET);
  float d[N / 8][4];
  wgmma_fence();
  wgmma<W, MAJOR_A, MAJOR_B>(d, descriptor_a, descriptor_b, false);
  wgmma_commit();
  wgmma_wait<0>(d);
  FA_UNROLL
  for (int j = 0; j < N / 8; ++j) FA_UNROLL
  for (int i = 0; i < 4; ++i) store_global(D + (j * 4 + i) * NUM_THREADS + thread_index(), d[j][i]);
}

// The same with A in registers, where thread t passes the four registers A[t].
template <int N, class T, class W>
FA_KERNEL FA_LAUNCH_BOUNDS(NUM_THREADS, 1)
void multiply_registers(Layout b, const uint32_t* A, const T* B, float* D) {
  for (int i = thread_index(); i < N * 16; i += NUM_THREADS)
    store_shared<T>(dynamic_smem() + B_OFFSET + b.place(N, i / 16, i % 16), load_global(B + i));
  fence_proxy_async();
  block_sync();
  uint32_t a[4];
  FA_UNROLL
  for (int i = 0; i < 4; ++i) a[i] = load_global(A + thread_index() * 4 + i);
  const uint64_t descriptor_b = b.descriptor(N, dynamic_smem() + B_OFFSET);
  float d[N / 8][4];
  wgmma_fence();
  wgmma<W>(d, a, descriptor_b, false);
  wgmma_commit();
  wgmma_wait<0>(d);
  FA_UNROLL
  for (int j = 0; j < N / 8; ++j) FA_UNROLL
  for (int i = 0; i < 4; ++i) store_global(D + (j * 4 + i) * NUM_THREADS + thread_index(), d[j][i]);
}

struct Coordinates {
  int at[5];
};

// Waits, but not forever, so that the test can report it if a card counts other bytes than the
// emulator.
FA_DEVICE bool wait_a_while(uint32_t mbarrier, int parity) {
  for (int i = 0; i < 100'000; ++i)
    if (mbarrier_try_wait(mbarrier, parity)) return true;
  return false;
}

FA_DEVICE void load(uint32_t dst, const TensorMap& map, int rank, const Coordinates& c,
                    uint32_t mbarrier) {
  const int* x = c.at;
  if (rank == 1) tma_load_1d(dst, map, x[0], mbarrier);
  if (rank == 2) tma_load_2d(dst, map, x[0], x[1], mbarrier);
  if (rank == 3) tma_load_3d(dst, map, x[0], x[1], x[2], mbarrier);
  if (rank == 4) tma_load_4d(dst, map, x[0], x[1], x[2], x[3], mbarrier);
  if (rank == 5) tma_load_5d(dst, map, x[0], x[1], x[2], x[3], x[4], mbarrier);
}

// Loads a box to shared memory, dumps it in order of addresses, and stores it to `copy_map`.
// `landed` is true if the mbarrier received exactly `bytes`, because only then the next phase has
// begun.
FA_KERNEL FA_LAUNCH_BOUNDS(NUM_THREADS, 1)
void load_and_store(const FA_GRID_CONSTANT TensorMap map, const FA_GRID_CONSTANT TensorMap copy_map,
                    int rank, Coordinates at, int bytes, uint16_t* dump, int* landed) {
  const uint32_t tile = dynamic_smem(), mbarrier = tile + OPERAND_BYTES - 8;
  if (thread_index() == 0) {
    mbarrier_init(mbarrier, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(mbarrier, bytes);
    load(tile, map, rank, at, mbarrier);
  }
  block_sync();
  const bool complete = wait_a_while(mbarrier, 0);
  store_global(landed + thread_index(), static_cast<int>(complete));
  if (!complete) return;
  for (int i = thread_index(); i < bytes / 2; i += NUM_THREADS)
    store_global(dump + i, load_shared<uint16_t>(tile + i * 2));
  const int* x = at.at;
  bool negative = false;  // a store accepts no negative coordinate
  FA_UNROLL
  for (int i = 0; i < 5; ++i) negative = negative || (i < rank && x[i] < 0);
  if (thread_index() == 0 && !negative) {
    if (rank == 1) tma_store_1d(copy_map, x[0], tile);
    if (rank == 2) tma_store_2d(copy_map, x[0], x[1], tile);
    if (rank == 3) tma_store_3d(copy_map, x[0], x[1], x[2], tile);
    if (rank == 4) tma_store_4d(copy_map, x[0], x[1], x[2], x[3], tile);
    if (rank == 5) tma_store_5d(copy_map, x[0], x[1], x[2], x[3], x[4], tile);
    tma_store_commit();
    tma_store_wait<0>();
  }
}

// Records what a wait for each parity returns before and after each of six phases.
FA_KERNEL void parities(int* said) {
  if (thread_index() != 0) return;
  mbarrier_init(dynamic_smem(), 1);
  for (int phase = 0; phase <= 6; ++phase) {
    for (int parity = 0; parity < 2; ++parity)
      store_global(said++, static_cast<int>(mbarrier_try_wait(dynamic_smem(), parity)));
    mbarrier_arrive(dynamic_smem());
  }
}

// One of three warpgroups releases registers, and the other two claim them. Also covers elect_one
// and a vote on a barrier.
FA_KERNEL FA_LAUNCH_BOUNDS(384, 1)
void roles(int* out) {
  const int t = thread_index(), role = t / 128;
  int value = elect_one() ? 1 : 0;
  if (role == 0) {
    setmaxnreg_dec<24>();
  } else {
    setmaxnreg_inc<240>();
    value += barrier_red_or(role, 128, role == 1 && t == 200) ? 2 : 0;
    value += barrier_red_or(role, 128, role == 2) ? 4 : 0;
  }
  store_global(out + t, value);
}

constexpr int CLUSTER = 2, CLUSTERS = 2;  // a grid of 4 x 4 blocks in clusters of 2 x 2

// Each block reads what the diagonally opposite block of its cluster wrote. The last block of each
// cluster returns early, and the others synchronize without it.
FA_KERNEL void clusters(int* x, int* out) {
  const Dim3 place = block_index_3d(), grid = grid_size();
  const int block = place.y * grid.x + place.x, t = thread_index();
  const int across = (place.y ^ 1) * grid.x + (place.x ^ 1);
  int value = cluster_rank() * 1000 + cluster_size() * 100;
  for (int round = 0; round < 3; ++round) {
    store_global(x + block * NUM_THREADS + t, block + round);
    cluster_sync();
    value += load_global(x + across * NUM_THREADS + t);
    cluster_sync();
  }
  store_global(out + block * NUM_THREADS + t, value);
  if (cluster_rank() == cluster_size() - 1) return;
  cluster_sync();
}

// A tensor [2][2][2][11][70] of 16-bit elements, with rows 160 bytes apart, and a box of it.
inline TensorMap map_of(uint16_t* tensor, int rank, int row, Swizzle swizzle) {
  const int64_t r = 160;
  if (rank == 1) return make_tensor_map(tensor, {70}, {}, {row}, swizzle);
  if (rank == 2) return make_tensor_map(tensor, {70, 11}, {r}, {row, 8}, swizzle);
  if (rank == 3) return make_tensor_map(tensor, {70, 11, 2}, {r, r * 11}, {row, 4, 2}, swizzle);
  if (rank == 4)
    return make_tensor_map(tensor, {70, 11, 2, 2}, {r, r * 11, r * 22}, {row, 4, 2, 1}, swizzle);
  return make_tensor_map(tensor, {70, 11, 2, 2, 2}, {r, r * 11, r * 22, r * 44}, {row, 2, 2, 1, 2},
                         swizzle);
}

template <int N, class T, class W = T>
void run_product(const fa::HopperTask& task) {
  constexpr Major K = Major::k, MN = Major::mn;
  const Layout a{task.swizzle_a, task.mn_major_a}, b{task.swizzle_b, task.mn_major_b};
  const auto* B = static_cast<const T*>(task.in[1]);
  auto* D = static_cast<float*>(task.out[0]);
  if (task.kind == fa::HopperTask::product_registers) {
    launch(multiply_registers<N, T, W>, 1, NUM_THREADS, OPERAND_BYTES, b,
           static_cast<const uint32_t*>(task.in[0]), B, D);
    return;
  }
  auto kernel = multiply<N, T, W, K, K>;
  if constexpr (std::is_same_v<T, W>) {
    if (a.mn_major && b.mn_major) kernel = multiply<N, T, W, MN, MN>;
    if (a.mn_major && !b.mn_major) kernel = multiply<N, T, W, MN, K>;
    if (!a.mn_major && b.mn_major) kernel = multiply<N, T, W, K, MN>;
  }
  launch(kernel, 1, NUM_THREADS, OPERAND_BYTES, a, b, static_cast<const T*>(task.in[0]), B, D);
}

template <int KEYS, int HEAD_DIM>
void run_example(const fa::HopperTask& task) {
  const auto in = [&](int i) { return static_cast<const fa::bf16*>(task.in[i]); };
  hopper_example::launch_multiply_twice<fa::bf16, KEYS, HEAD_DIM>(
      in(0), in(1), in(2), static_cast<float*>(task.out[0]), static_cast<float*>(task.out[1]));
}

inline void run(const fa::HopperTask& task) {
  using Task = fa::HopperTask;
  if (task.kind == Task::product || task.kind == Task::product_registers) {
    if (task.e4m3 && task.n == 64) return run_product<64, fa::bf16, fa::e4m3>(task);
    if (task.e4m3 && task.n == 128) return run_product<128, fa::bf16, fa::e4m3>(task);
    if (task.fp16 && task.n == 64) return run_product<64, fa::fp16>(task);
    if (!task.fp16 && task.n == 8) return run_product<8, fa::bf16>(task);
    if (!task.fp16 && task.n == 64) return run_product<64, fa::bf16>(task);
    if (!task.fp16 && task.n == 128) return run_product<128, fa::bf16>(task);
    if (!task.fp16 && task.n == 256) return run_product<256, fa::bf16>(task);
  }
  if (task.kind == Task::copy) {
    Coordinates c;
    for (int i = 0; i < 5; ++i) c.at[i] = task.at[i];
    auto* tensor = static_cast<uint16_t*>(task.in[0]);
    auto* copy = static_cast<uint16_t*>(task.out[1]);
    launch(load_and_store, 1, NUM_THREADS, OPERAND_BYTES,
           map_of(tensor, task.rank, task.row, task.swizzle_a),
           map_of(copy, task.rank, task.row, task.swizzle_a), task.rank, c, task.bytes,
           static_cast<uint16_t*>(task.out[0]), static_cast<int*>(task.out[2]));
    return;
  }
  if (task.kind == Task::parities)
    return launch(parities, 1, 32, 64, static_cast<int*>(task.out[0]));
  if (task.kind == Task::roles) return launch(roles, 1, 384, 0, static_cast<int*>(task.out[0]));
  if (task.kind == Task::clusters) {
    constexpr int BLOCKS = CLUSTERS * CLUSTER;  // in x and in y
    return launch(clusters, LaunchConfig{{BLOCKS, BLOCKS}, NUM_THREADS, 0, {CLUSTER, CLUSTER}},
                  static_cast<int*>(task.out[1]), static_cast<int*>(task.out[0]));
  }
  if (task.kind == Task::example && task.n == 64) return run_example<64, 64>(task);
  if (task.kind == Task::example && task.n == 128) return run_example<128, 128>(task);
  throw fa::InputError("no kernel for this task");
}

}  // namespace FA_BACKEND::test_hopper
