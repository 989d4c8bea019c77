// Results of wgmma, in fragments and with descriptors, and an example compared with a loop in
// double.

#include <cmath>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "common/simt/descriptor.hpp"
#include "common/simt/hopper_example.hpp"
#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::bf16;
using fa::fp16;
using fa::simt::Buffer;
using fa::simt::Config;
using fa::simt::Report;

constexpr int kThreads = 128;

template <class T>
void fill(Buffer<T>& buffer, uint32_t state) {
  for (T& x : buffer) {
    state = state * 1664525u + 1013904223u;
    x = fa::from_float<T>(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
  }
}

TEST_CASE("a descriptor is made and taken apart bit by bit") {
  const uint64_t bits = wgmma_descriptor(0x1420, 16, 1024, Swizzle::bytes_128);
  CHECK(bits == (0x142u | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62));
  const fa::simt::MatrixDescriptor descriptor(bits);
  CHECK(descriptor.start == 0x1420);
  CHECK(descriptor.leading == 16);
  CHECK(descriptor.stride == 1024);
  CHECK(descriptor.swizzle == Swizzle::bytes_128);
  CHECK(descriptor.base_offset == 0);
  CHECK(!descriptor.reserved);
  CHECK(descriptor.aligned());
  CHECK(fa::simt::MatrixDescriptor(advance_descriptor(bits, 2048)).start == 0x1c20);
  CHECK(!fa::simt::MatrixDescriptor(advance_descriptor(bits, 128)).aligned());
  CHECK(fa::simt::MatrixDescriptor(bits | uint64_t{5} << 49).base_offset == 5);
  for (const int bit : {14, 15, 30, 31, 46, 47, 48, 52, 61}) {
    CHECK(fa::simt::MatrixDescriptor(bits | uint64_t{1} << bit).reserved);
  }
  for (int bit = 0; bit < 64; ++bit) {  // all other bits have a meaning
    const bool named = bit < 14 || (bit >= 16 && bit < 30) || (bit >= 32 && bit < 46) ||
                       (bit >= 49 && bit < 52) || bit >= 62;
    CHECK(fa::simt::MatrixDescriptor(uint64_t{1} << bit).reserved == !named);
  }
}

// Compares one tile with a plain loop in double. T is the type to which S is rounded between the
// two products.
template <class T, int KEYS, int HEAD_DIM>
Report check_example(const Config& config) {
  Buffer<T> Q(64 * HEAD_DIM, "Q"), K(KEYS * HEAD_DIM, "K"), V(KEYS * HEAD_DIM, "V");
  Buffer<float> S(64 * KEYS, "S"), O(64 * HEAD_DIM, "O");
  fill(Q, 1);
  fill(K, 2);
  fill(V, 3);
  Report report = fa::simt::run(config, [&] {
    hopper_example::launch_multiply_twice<T, KEYS, HEAD_DIM>(Q.data(), K.data(), V.data(), S.data(),
                                                             O.data());
  });
  const auto at = [](const Buffer<T>& m, int row, int col) -> double {
    return fa::to_float(m[static_cast<size_t>(row * HEAD_DIM + col)]);
  };
  double worst_s = 0, worst_o = 0;
  for (int row = 0; row < 64; ++row) {
    for (int key = 0; key < KEYS; ++key) {
      double s = 0;
      for (int d = 0; d < HEAD_DIM; ++d) s += at(Q, row, d) * at(K, key, d);
      const double error = std::abs(s - double{S[static_cast<size_t>(row * KEYS + key)]});
      worst_s = fa::max_keeping_nan(error, worst_s);
    }
    for (int d = 0; d < HEAD_DIM; ++d) {
      double o = 0;
      for (int key = 0; key < KEYS; ++key) {
        const float s = S[static_cast<size_t>(row * KEYS + key)];
        o += double{fa::to_float(fa::from_float<T>(s))} * at(V, key, d);
      }
      const double error = std::abs(o - double{O[static_cast<size_t>(row * HEAD_DIM + d)]});
      worst_o = fa::max_keeping_nan(error, worst_o);
    }
  }
  CHECK(worst_s < 1e-5);
  CHECK(worst_o < 1e-4);
  return report;
}

TEST_CASE("S = Q K^T and O = S V through tensor copies and wgmma, as a loop in double") {
  Report report = check_example<bf16, 64, 64>({});
  CHECK(texts(report) == "");
  CHECK(report.counters.wgmma_instructions == (4 + 4) * 4);  // four warps
  CHECK(report.counters.tma_instructions == 3);
  CHECK(report.counters.tma_bytes == 3 * 64 * 64 * 2);
  CHECK(report.counters.mbarrier_operations == 2 + 2 + 2 * 4);
  report = check_example<bf16, 128, 128>({});
  CHECK(texts(report) == "");
  CHECK(report.counters.wgmma_instructions == (8 + 8) * 4);
  for (const char* name : {"wgmma_instructions", "tma_instructions", "tma_bytes"}) {
    CHECK(!is_estimate(report.counters, name));
  }
  CHECK(is_estimate(report.counters, "mbarrier_operations"));  // a card may poll more than once
  CHECK(texts(check_example<fp16, 128, 64>({})) == "");
  CHECK(texts(check_example<bf16, 256, 64>({})) == "");
  CHECK(texts(check_example<bf16, 16, 128>({})) == "");
}

TEST_CASE("the example under 100 schedules") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    Config config{.schedule_seed = seed};
    CHECK(texts(check_example<bf16, 64, 64>(config)) == "");
  }
}

// Runs the example without each of its barriers, waits and fences.
TEST_CASE("whatever the example leaves out is found") {
  const Report intact = check_example<bf16, 64, 64>({});
  int found = 0;
  for (const fa::simt::Synchronization& sync : intact.synchronizations) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(sync.instruction);
      CAPTURE(sync.where.line);
      Buffer<bf16> Q(64 * 64, "Q");
      Buffer<float> S(64 * 64, "S");
      Config config{.schedule_seed = seed, .leave_out = {{.site = to_string(sync.where)}}};
      const Report report = fa::simt::run(config, [&] {
        hopper_example::launch_multiply_twice<bf16, 64, 64>(Q.data(), Q.data(), Q.data(), S.data(),
                                                            S.data());
      });
      CHECK(kinds(report) != "");
      ++found;
    }
  }
  // 2 init, fence, block_sync, 2 expect, 2 mbarrier_wait, 2 wgmma_fence, 2 wgmma_wait
  CHECK(found == 12 * 10);
}

TEST_CASE("the event log says which descriptors a wgmma has") {
  Config config{.events = true};
  const Report report = check_example<bf16, 64, 128>(config);
  constexpr int K = 64 * 128 * 2, V = 2 * K, PANEL = 64 * 128;  // Q is at 0
  constexpr uint64_t WINDOW = 1024;  // start of shared memory on the emulator, as by dynamic_smem()
  const uint64_t along = wgmma_descriptor(WINDOW, 16, 1024, Swizzle::bytes_128);
  const uint64_t across = wgmma_descriptor(WINDOW, PANEL, 1024, Swizzle::bytes_128);
  for (int warp = 0; warp < 4; ++warp) {
    int step = 0;
    for (const fa::simt::Event& event : report.events) {
      if (event.kind != fa::simt::EventKind::kWgmma || event.warp != warp) continue;
      CAPTURE(step);
      if (step < 8) {  // S = Q @ K.T
        const int column = step / 4 * PANEL + step % 4 * 32;
        CHECK(event.n == 64);
        CHECK(event.a.address == column);
        CHECK(event.a.descriptor == advance_descriptor(along, column));
        CHECK(!event.a.mn_major);
        CHECK(event.b.address == K + column);
        CHECK(event.b.descriptor == advance_descriptor(along, K + column));
        CHECK(!event.b.mn_major);
      } else {  // O = S @ V with S in registers
        CHECK(event.n == 128);
        CHECK(event.a.descriptor == 0);
        CHECK(event.b.address == V + (step - 8) * 2048);
        CHECK(event.b.descriptor == advance_descriptor(across, V + (step - 8) * 2048));
        CHECK(event.b.mn_major);
      }
      ++step;
    }
    CHECK(step == 8 + 4);
  }
}

// Operands [rows][16 k] anywhere in shared memory, with any swizzle and major.
struct Layout {
  Swizzle swizzle;
  bool mn_major;
};

// Returns where element (row, k) of an operand with `rows` rows is stored, in lines of the
// swizzle's span.
uint32_t place(const Layout& layout, int rows, int row, int k) {
  const int span = static_cast<int>(fa::swizzle_span(layout.swizzle)), line = span / 2;
  int dense;
  if (layout.mn_major) {  // lines of `line` rows: 16 lines, one for each k, then the next rows
    dense = row / line * 16 * span + k * span + row % line * 2;
  } else if (layout.swizzle == Swizzle::none) {  // two columns of 8 k
    dense = k / 8 * rows * 16 + row * 16 + k % 8 * 2;
  } else {  // the operand is the first 16 k of each line
    dense = row * span + k * 2;
  }
  return fa::swizzled(layout.swizzle, static_cast<uint32_t>(dense));
}

uint64_t descriptor(const Layout& layout, int rows, uint32_t address) {
  const uint32_t span = fa::swizzle_span(layout.swizzle);
  if (layout.mn_major) {
    const bool plain = layout.swizzle == Swizzle::none;
    const uint32_t lines = 16 * span, eight = 8 * span;
    return plain ? wgmma_descriptor(address, eight, lines, layout.swizzle)
                 : wgmma_descriptor(address, lines, eight, layout.swizzle);
  }
  const uint32_t columns = static_cast<uint32_t>(rows) * 16;
  return wgmma_descriptor(address, columns, 8 * span, layout.swizzle);
}

struct Product {
  int n;
  Layout a, b;
};

constexpr uint32_t kB = 16 * 1024;  // address of B

// D = A B with ordinary stores to shared memory and one wgmma.
template <int N, class T, Major MAJOR_A, Major MAJOR_B>
void multiply_once(Product product, const T* A, const T* B, float* D) {
  for (int i = thread_index(); i < 64 * 16; i += kThreads)
    store_shared<T>(dynamic_smem() + place(product.a, 64, i / 16, i % 16), load_global(A + i));
  for (int i = thread_index(); i < N * 16; i += kThreads)
    store_shared<T>(dynamic_smem() + kB + place(product.b, N, i / 16, i % 16), load_global(B + i));
  fence_proxy_async();
  block_sync();
  float d[N / 8][4];
  wgmma_fence();
  wgmma<T, MAJOR_A, MAJOR_B>(d, descriptor(product.a, 64, dynamic_smem()),
                             descriptor(product.b, N, dynamic_smem() + kB), false);
  wgmma_commit();
  wgmma_wait<0>(d);
  for (int j = 0; j < N / 8; ++j)
    for (int i = 0; i < 4; ++i) store_global(D + (j * 4 + i) * kThreads + thread_index(), d[j][i]);
}

template <int N, class T = bf16>
void check_product(const Layout& a, const Layout& b) {
  CAPTURE(N);
  CAPTURE(static_cast<int>(a.swizzle));
  CAPTURE(a.mn_major);
  CAPTURE(static_cast<int>(b.swizzle));
  CAPTURE(b.mn_major);
  Buffer<T> A(64 * 16, "A"), B(N * 16, "B");
  Buffer<float> D(64 * N, "D");
  fill(A, 5);
  fill(B, 6);
  constexpr Major K = Major::k, MN = Major::mn;
  const auto kernel = a.mn_major
                          ? (b.mn_major ? multiply_once<N, T, MN, MN> : multiply_once<N, T, MN, K>)
                          : (b.mn_major ? multiply_once<N, T, K, MN> : multiply_once<N, T, K, K>);
  const Report report = fa::simt::run({}, [&] {
    launch(kernel, 1, kThreads, 64 * 1024, Product{N, a, b}, static_cast<const T*>(A.data()),
           static_cast<const T*>(B.data()), D.data());
  });
  CHECK(texts(report) == "");
  for (int t = 0; t < kThreads; ++t) {
    for (int r = 0; r < N / 2; ++r) {
      // FlashAttention-3's CLayout_64xN, written down for the test.
      const int row = t / 32 * 16 + t % 32 / 4 + 8 * (r / 2 % 2);
      const int col = 2 * (t % 4) + r % 2 + 8 * (r / 4);
      double sum = 0;
      for (int k = 0; k < 16; ++k) {
        sum += double{fa::to_float(A[static_cast<size_t>(row * 16 + k)])} *
               double{fa::to_float(B[static_cast<size_t>(col * 16 + k)])};
      }
      const double error = std::abs(sum - double{D[static_cast<size_t>(r * kThreads + t)]});
      CHECK(error < 1e-6);
    }
  }
}

TEST_CASE("every swizzle, K-major and MN-major, n from 8 to 256") {
  for (const Swizzle swizzle :
       {Swizzle::none, Swizzle::bytes_32, Swizzle::bytes_64, Swizzle::bytes_128}) {
    const Layout plain{Swizzle::none, false};
    check_product<64>({swizzle, false}, plain);
    check_product<64>(plain, {swizzle, false});
    check_product<64>({swizzle, true}, plain);
    check_product<64>(plain, {swizzle, true});
    check_product<128>({swizzle, false}, {swizzle, true});
  }
  const Layout k{Swizzle::bytes_128, false};
  check_product<8>(k, k);
  check_product<24>(k, k);
  check_product<176>(k, k);
  check_product<256>(k, k);
  check_product<256>(k, {Swizzle::bytes_128, true});
  check_product<64, fp16>(k, {Swizzle::bytes_64, true});
}

}  // namespace
