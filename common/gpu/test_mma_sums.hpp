#pragma once
// Computes D = A B + C for one tile per block, by mma.sync or by wgmma, with operands that the host
// chooses. The same source runs on a card and on the emulator, and test_mma_sums.cu compares the
// bits of D.

#include <cstdint>

#include "common/backend.hpp"

namespace fa {

enum class SumsOf { mma_bf16, mma_fp16, mma_s8, wgmma_bf16, wgmma_fp16, wgmma_e4m3 };

// A tile has 64 rows and 8 columns, which are four mma side by side, or one wgmma with n = 8. Rows
// of A and columns of B have 32 bytes, which are 16 elements of 16 bits or 32 of 8 bits.
struct SumsTask {
  SumsOf what;
  int tiles;
  const void *A, *B;  // [tiles][64][32 bytes], [tiles][8][32 bytes]
  const void* C;      // [tiles][64][8], fp32 or int32
  void* D;            // same layout as C
};
inline constexpr int kSumsRows = 64, kSumsColumns = 8, kSumsRowBytes = 32;

}  // namespace fa

namespace FA_BACKEND::mma_sums {

constexpr int NUM_THREADS = 128, ROWS = fa::kSumsRows, COLUMNS = fa::kSumsColumns;
constexpr int ROW_WORDS = fa::kSumsRowBytes / 4;

template <fa::SumsOf WHAT, class T, class Sum>
FA_KERNEL FA_LAUNCH_BOUNDS(NUM_THREADS, 1)
void multiply(const uint32_t* A, const uint32_t* B, const Sum* C, Sum* D) {
  const int tile = block_index(), lane = thread_index() % 32;
  const int row = thread_index() / 32 * 16 + lane / 4, column = lane % 4 * 2;
  A += tile * ROWS * ROW_WORDS;
  B += tile * COLUMNS * ROW_WORDS;
  C += tile * ROWS * COLUMNS;
  D += tile * ROWS * COLUMNS;
  if (thread_index() < COLUMNS * ROW_WORDS) {  // [2 halves of a column][8 columns][16 bytes]
    const int of = thread_index() / ROW_WORDS, word = thread_index() % ROW_WORDS;
    store_shared<uint32_t>(dynamic_smem() + word / 4 * 128 + of * 16 + word % 4 * 4,
                           load_global(B + thread_index()));
  }
  uint32_t a[4], b[2];
  FA_UNROLL
  for (int i = 0; i < 4; ++i)
    a[i] = load_global(A + (row + i % 2 * 8) * ROW_WORDS + lane % 4 + i / 2 * 4);
  FA_UNROLL
  for (int i = 0; i < 2; ++i) b[i] = load_global(B + lane / 4 * ROW_WORDS + lane % 4 + i * 4);
  Sum c[1][4];
  FA_UNROLL
  for (int i = 0; i < 4; ++i)
    c[0][i] = load_global(C + (row + i / 2 * 8) * COLUMNS + column + i % 2);
  fence_proxy_async();
  block_sync();
  if constexpr (WHAT == fa::SumsOf::mma_s8) {
    mma_m16n8k32_s8(a, b, c[0]);
  } else if constexpr (WHAT == fa::SumsOf::mma_bf16 || WHAT == fa::SumsOf::mma_fp16) {
    mma_m16n8k16<T>(a, b, c[0]);
  } else {
    const uint64_t descriptor = wgmma_descriptor(dynamic_smem(), 128, 256, Swizzle::none);
    wgmma_fence();
    wgmma<T>(c, a, descriptor, true);
    wgmma_commit();
    wgmma_wait<0>(c);
  }
  FA_UNROLL
  for (int i = 0; i < 4; ++i)
    store_global(D + (row + i / 2 * 8) * COLUMNS + column + i % 2, c[0][i]);
}

template <fa::SumsOf WHAT, class T, class Sum>
void run_as(const fa::SumsTask& task) {
  launch(multiply<WHAT, T, Sum>, task.tiles, NUM_THREADS, COLUMNS * fa::kSumsRowBytes,
         static_cast<const uint32_t*>(task.A), static_cast<const uint32_t*>(task.B),
         static_cast<const Sum*>(task.C), static_cast<Sum*>(task.D));
}

inline void run(const fa::SumsTask& task) {
  using fa::SumsOf;
  switch (task.what) {
    case SumsOf::mma_bf16:
      return run_as<SumsOf::mma_bf16, fa::bf16, float>(task);
    case SumsOf::mma_fp16:
      return run_as<SumsOf::mma_fp16, fa::fp16, float>(task);
    case SumsOf::mma_s8:
      return run_as<SumsOf::mma_s8, int8_t, int>(task);
    case SumsOf::wgmma_bf16:
      return run_as<SumsOf::wgmma_bf16, fa::bf16, float>(task);
    case SumsOf::wgmma_fp16:
      return run_as<SumsOf::wgmma_fp16, fa::fp16, float>(task);
    case SumsOf::wgmma_e4m3:
      return run_as<SumsOf::wgmma_e4m3, fa::e4m3, float>(task);
  }
}

}  // namespace FA_BACKEND::mma_sums
