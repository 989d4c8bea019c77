// A first wgmma, for chapter 13, in which four warps multiply two small matrices with one
// instruction, on the emulator.
//
//   first_wgmma                    C [64, 8] = A [64, 16] @ B.T, B [8, 16]
//   first_wgmma --without-fence    wgmma may not see what the threads have stored
//   first_wgmma --without-wait     C is read while it is being computed

#include <cmath>
#include <cstdio>

#include "common/backend.hpp"
#include "common/cli.hpp"
#include "common/guarded_main.hpp"
#include "common/half.hpp"
#include "common/kernels/geometry.hpp"
#include "common/simt/simt.hpp"
#include "common/words.hpp"

// [anchor: first_wgmma]
namespace FA_BACKEND::first_wgmma {

constexpr int M = 64, N = 8, K = 16, NUM_THREADS = 128;

// C = A @ B.T. A [M, K], B [N, K] and C [M, N] are in global memory, row by row.
FA_KERNEL void multiply(const bf16* A, const bf16* B, float* C, bool fence, bool wait) {
  const uint32_t A_smem = dynamic_smem(), B_smem = A_smem + M * K * sizeof(bf16);
  // An 8 x 8 piece of a matrix takes 128 bytes, 16 per row. Eight rows are two such pieces.
  const auto store = [](uint32_t smem, int row, int k, bf16 value) {
    store_shared<bf16>(smem + (row / 8 * 2 + k / 8) * 128 + row % 8 * 16 + k % 8 * 2, value);
  };
  for (int i = thread_index(); i < M * K; i += NUM_THREADS)
    store(A_smem, i / K, i % K, load_global(A + i));
  for (int i = thread_index(); i < N * K; i += NUM_THREADS)
    store(B_smem, i / K, i % K, load_global(B + i));
  if (fence) fence_proxy_async();  // makes these stores visible to wgmma
  block_sync();                    // all threads have stored

  float C_rmem[N / 8][4];  // this thread holds four elements of C
  wgmma_fence();
  wgmma<bf16>(C_rmem, wgmma_descriptor(A_smem, 128, 256, Swizzle::none),
              wgmma_descriptor(B_smem, 128, 256, Swizzle::none), false);  // C = A @ B.T
  wgmma_commit();
  if (wait) wgmma_wait<0>(C_rmem);  // the tensor cores have written C_rmem

  const int row = warp_index() * 16 + lane_index() / 4, column = lane_index() % 4 * 2;
  for (int i = 0; i < 4; ++i)
    store_global(C + (row + i / 2 * 8) * N + column + i % 2, C_rmem[0][i]);
}

}  // namespace FA_BACKEND::first_wgmma
// [/anchor: first_wgmma]

namespace {

int program(int argc, char** argv) {
  bool without_fence = false, without_wait = false;
  fa::Cli cli("first_wgmma", "Multiplies two small matrices with one wgmma, on the emulator.");
  cli.flag("--without-fence", without_fence, "leave out the proxy fence after the stores");
  cli.flag("--without-wait", without_wait, "read the result before the product is complete");
  cli.parse(argc, argv);

  using namespace emulator::first_wgmma;
  fa::simt::Buffer<fa::bf16> A(M * K, "A"), B(N * K, "B");
  fa::simt::Buffer<float> C(M * N, "C");
  // Whole numbers up to 15, so that every sum is exact.
  for (int i = 0; i < M * K; ++i) A[i] = fa::to_bf16(static_cast<float>((i / K + i % K) % 16));
  for (int i = 0; i < N * K; ++i) B[i] = fa::to_bf16(static_cast<float>((3 * (i / K) + i % K) % 8));
  for (int i = 0; i < M * N; ++i) C[i] = NAN;

  const fa::simt::Report report = fa::simt::run(fa::simt::Config{}, [&] {
    emulator::launch(multiply, 1, NUM_THREADS, (M + N) * K * sizeof(fa::bf16), A.data(), B.data(),
                     C.data(), !without_fence, !without_wait);
  });

  int wrong = 0;
  for (int i = 0; i < M * N; ++i) {
    float exact = 0;
    for (int k = 0; k < K; ++k)
      exact += fa::to_float(A[i / N * K + k]) * fa::to_float(B[i % N * K + k]);
    wrong += !(C[i] == exact);
  }
  std::printf("C [%d, %d] = A [%d, %d] @ B.T: %d of %d elements are right\n", M, N, M, K,
              M * N - wrong, M * N);
  std::printf("%d multiply-adds, %lld wgmma, counted once per warp; %lld ldmatrix, %lld mma\n",
              M * N * K, static_cast<long long>(report.counters.wgmma_instructions),
              static_cast<long long>(report.counters.ldmatrix_instructions),
              static_cast<long long>(report.counters.mma_instructions));
  for (const fa::simt::Hazard& hazard : report.hazards)
    std::printf("%s\n", fa::wrapped(hazard.text).c_str());
  return wrong == 0 && report.hazards.empty() ? fa::kAgreed : fa::kDisagreed;
}

}  // namespace

int main(int argc, char** argv) { return fa::guarded_main(argc, argv, program); }
