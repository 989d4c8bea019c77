#pragma once
// One tile of attention with Hopper's instructions, without softmax and without a loop. The
// emulator's test compares it with a product computed by hand, and common/gpu/test_hopper.cu runs
// it on a card.
//
//   S = Q @ K.T   [64, KEYS]       tensor copies load Q and K in panels of 64 columns
//   O = S @ V     [64, HEAD_DIM]   S, rounded in its registers, is operand A

#include "common/backend.hpp"

namespace FA_BACKEND::hopper_example {

constexpr int ROWS = 64;        // rows of a wgmma
constexpr int PANEL = 64;       // columns per line of the 128-byte swizzle
constexpr uint32_t LINE = 128;  // in bytes

// A tile [rows, columns] in shared memory is stored as [columns / PANEL][rows][PANEL]. It starts at
// a multiple of 1024 bytes, and panel p starts p * rows * LINE bytes later.
FA_HOST_DEVICE constexpr uint32_t tile_bytes(int rows, int columns) {
  return static_cast<uint32_t>(rows) * static_cast<uint32_t>(columns) * 2;
}

// Describes a row-major matrix [rows, columns] as a tensor [columns / PANEL][rows][PANEL]. One box
// is a whole tile, so a single instruction copies all its panels.
template <class T>
TensorMap tile_map(const T* matrix, int rows, int columns, int tile_rows) {
  return make_tensor_map(matrix, {PANEL, rows, columns / PANEL}, {columns * 2, PANEL * 2},
                         {PANEL, tile_rows, columns / PANEL}, Swizzle::bytes_128);
}

// Descriptor of k-step `step` (16 elements) of a tile whose rows run along k. A step advances by 32
// bytes in a line, and every fourth step by a panel. 8 rows are 1024 bytes.
FA_DEVICE uint64_t along_rows(uint32_t tile, int rows, int step) {
  const uint64_t descriptor = wgmma_descriptor(tile, 16, 8 * LINE, Swizzle::bytes_128);
  return advance_descriptor(descriptor, step / 4 * rows * LINE + step % 4 * 32);
}

// Descriptor of k-step `step` of a tile whose columns are n. A step advances by 16 rows. Panels are
// rows * LINE bytes apart.
FA_DEVICE uint64_t across_rows(uint32_t tile, int rows, int step) {
  const uint64_t descriptor = wgmma_descriptor(tile, rows * LINE, 8 * LINE, Swizzle::bytes_128);
  return advance_descriptor(descriptor, step * 16 * LINE);
}

template <class T, int KEYS, int HEAD_DIM>
FA_KERNEL FA_LAUNCH_BOUNDS(128, 1)
void multiply_twice(const FA_GRID_CONSTANT TensorMap Q_map, const FA_GRID_CONSTANT TensorMap K_map,
                    const FA_GRID_CONSTANT TensorMap V_map,
                    float* S,  // [64, KEYS], before rounding
                    float* O)  // [64, HEAD_DIM]
{
  const uint32_t Q_smem = dynamic_smem();
  const uint32_t K_smem = Q_smem + tile_bytes(ROWS, HEAD_DIM);
  const uint32_t V_smem = K_smem + tile_bytes(KEYS, HEAD_DIM);
  const uint32_t QK_landed = V_smem + tile_bytes(KEYS, HEAD_DIM), V_landed = QK_landed + 8;

  if (thread_index() == 0) {
    mbarrier_init(QK_landed, 1);
    mbarrier_init(V_landed, 1);
    fence_mbarrier_init();
  }
  block_sync();  // all threads see the initialized mbarriers
  if (thread_index() == 0) {
    mbarrier_arrive_expect_tx(QK_landed, tile_bytes(ROWS + KEYS, HEAD_DIM));
    tma_load_3d(Q_smem, Q_map, 0, 0, 0, QK_landed);
    tma_load_3d(K_smem, K_map, 0, 0, 0, QK_landed);
    mbarrier_arrive_expect_tx(V_landed, tile_bytes(KEYS, HEAD_DIM));
    tma_load_3d(V_smem, V_map, 0, 0, 0, V_landed);
  }

  float S_rmem[KEYS / 8][4];
  mbarrier_wait(QK_landed, 0);
  wgmma_fence();
  FA_UNROLL
  for (int step = 0; step < HEAD_DIM / 16; ++step)
    wgmma<T>(S_rmem, along_rows(Q_smem, ROWS, step), along_rows(K_smem, KEYS, step), step > 0);
  wgmma_commit();
  wgmma_wait<0>(S_rmem);

  const int row = thread_index() / 32 * 16 + thread_index() % 32 / 4;
  const int column = thread_index() % 4 * 2;
  FA_UNROLL
  for (int j = 0; j < KEYS / 8; ++j) FA_UNROLL
  for (int i = 0; i < 4; ++i)
    store_global(S + (row + i / 2 * 8) * KEYS + j * 8 + column + i % 2, S_rmem[j][i]);

  // Two adjacent groups of 8 columns form 16 k, and each thread already holds the elements that it
  // must pass.
  uint32_t P_rmem[KEYS / 16][4];
  FA_UNROLL
  for (int step = 0; step < KEYS / 16; ++step) FA_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float* s = &S_rmem[step * 2 + i / 2][i % 2 * 2];
    P_rmem[step][i] = pack<T>(s[0], s[1]);
  }

  float O_rmem[HEAD_DIM / 8][4];
  mbarrier_wait(V_landed, 0);
  wgmma_fence();
  FA_UNROLL
  for (int step = 0; step < KEYS / 16; ++step)
    wgmma<T, Major::mn>(O_rmem, P_rmem[step], across_rows(V_smem, KEYS, step), step > 0);
  wgmma_commit();
  wgmma_wait<0>(O_rmem);
  FA_UNROLL
  for (int j = 0; j < HEAD_DIM / 8; ++j) FA_UNROLL
  for (int i = 0; i < 4; ++i)
    store_global(O + (row + i / 2 * 8) * HEAD_DIM + j * 8 + column + i % 2, O_rmem[j][i]);
}

template <class T, int KEYS, int HEAD_DIM>
void launch_multiply_twice(const T* Q, const T* K, const T* V, float* S, float* O) {
  const size_t smem_bytes = tile_bytes(ROWS + 2 * KEYS, HEAD_DIM) + 16;
  launch(multiply_twice<T, KEYS, HEAD_DIM>, 1, 128, smem_bytes, tile_map(Q, ROWS, HEAD_DIM, ROWS),
         tile_map(K, KEYS, HEAD_DIM, KEYS), tile_map(V, KEYS, HEAD_DIM, KEYS), S, O);
}

}  // namespace FA_BACKEND::hopper_example
