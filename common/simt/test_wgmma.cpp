// wgmma: fragments, descriptors, what is in flight, and roles with their registers.

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/simt/descriptor.hpp"
#include "common/simt/hopper_example.hpp"
#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::bf16;
using fa::fp16;
using fa::simt::Buffer;
using fa::simt::check_twins;
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
  for (int bit = 0; bit < 64; ++bit) {  // all others mean something
    const bool named = bit < 14 || (bit >= 16 && bit < 30) || (bit >= 32 && bit < 46) ||
                       (bit >= 49 && bit < 52) || bit >= 62;
    CHECK(fa::simt::MatrixDescriptor(uint64_t{1} << bit).reserved == !named);
  }
}

// One tile against a plain loop in double. T rounds S between the two products.
template <class T, int KEYS, int HEAD_DIM>
Report check_example(const Config& config) {
  Buffer<T> Q(64 * HEAD_DIM, "Q"), K(KEYS * HEAD_DIM, "K"), V(KEYS * HEAD_DIM, "V");
  Buffer<float> S(64 * KEYS, "S"), O(64 * HEAD_DIM, "O");
  fill(Q, 1);
  fill(K, 2);
  fill(V, 3);
  const Report report = fa::simt::run(config, [&] {
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
      if (!(error <= worst_s)) worst_s = error;
    }
    for (int d = 0; d < HEAD_DIM; ++d) {
      double o = 0;
      for (int key = 0; key < KEYS; ++key) {
        const float s = S[static_cast<size_t>(row * KEYS + key)];
        o += double{fa::to_float(fa::from_float<T>(s))} * at(V, key, d);
      }
      const double error = std::abs(o - double{O[static_cast<size_t>(row * HEAD_DIM + d)]});
      if (!(error <= worst_o)) worst_o = error;
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
    CHECK(is_estimate(report.counters, name));
  }
  CHECK(texts(check_example<fp16, 128, 64>({})) == "");
  CHECK(texts(check_example<bf16, 256, 64>({})) == "");
  CHECK(texts(check_example<bf16, 16, 128>({})) == "");
}

TEST_CASE("the example under 100 schedules") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    Config config;
    config.schedule_seed = seed;
    CHECK(texts(check_example<bf16, 64, 64>(config)) == "");
  }
}

// The example without each of its barriers, waits and fences.
TEST_CASE("whatever the example leaves out is found") {
  const Report intact = check_example<bf16, 64, 64>({});
  int found = 0;
  for (const fa::simt::Synchronization& sync : intact.synchronizations) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(sync.instruction);
      CAPTURE(sync.where.line);
      Buffer<bf16> Q(64 * 64, "Q");
      Buffer<float> S(64 * 64, "S");
      Config config;
      config.schedule_seed = seed;
      config.leave_out = {{.site = to_string(sync.where)}};
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

// Operands anywhere in shared memory, with any swizzle and major: [rows][16 k] each.
struct Layout {
  Swizzle swizzle;
  bool mn_major;
};

// Where element (row, k) of an operand of `rows` rows stands: lines of the swizzle's span.
uint32_t place(const Layout& layout, int rows, int row, int k) {
  const int span = static_cast<int>(fa::swizzle_span(layout.swizzle)), line = span / 2;
  int dense;
  if (layout.mn_major) {  // lines of `line` rows; 16 of them, one for each k; then the next rows
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

constexpr uint32_t kB = 16 * 1024;  // where B stands

// D = A B, by ordinary stores to shared memory and one wgmma.
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

constexpr uint32_t kSmem = 48 * 1024;

using Kernel = void (*)(float* out, bool broken);
Report run_kernel(Kernel kernel, const Config& config, bool broken, int threads = kThreads) {
  Buffer<float> out(1024, "out");
  return fa::simt::run(config, [&] { launch(kernel, 1, threads, kSmem, out.data(), broken); });
}
std::string twins(Kernel kernel, const std::string& expected, int threads = kThreads) {
  return check_twins([=](const Config& config,
                         bool broken) { return run_kernel(kernel, config, broken, threads); },
                     expected);
}

// Two K-major tiles of 64 rows and 64 columns, all ones, by ordinary stores.
constexpr uint32_t kTile = 8192;
uint64_t tile(int i, int step = 0) {
  return advance_descriptor(wgmma_descriptor(dynamic_smem() + static_cast<uint32_t>(i) * kTile, 16,
                                             1024, Swizzle::bytes_128),
                            static_cast<uint32_t>(step) * 32);
}
void make_tiles(int tiles = 2, bool fence = true) {
  const auto words = static_cast<uint32_t>(tiles) * kTile / 4;
  for (uint32_t i = static_cast<uint32_t>(thread_index()); i < words;
       i += static_cast<uint32_t>(block_size().x)) {
    store_shared<uint32_t>(dynamic_smem() + i * 4, 0x3f80'3f80);
  }
  if (fence) fence_proxy_async();
  block_sync();
}

void accumulator_read_early(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  wgmma_fence();
  wgmma<bf16>(d, tile(0), tile(1), false);
  wgmma_commit();
  if (broken) d[1][2] *= 2.0f;
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[1][2]);
}

void waits_for_too_few(float* out, bool broken) {
  make_tiles();
  float s[8][4], o[8][4];
  wgmma_fence();
  wgmma<bf16>(s, tile(0), tile(1), false);
  wgmma_commit();
  wgmma<bf16>(o, tile(0), tile(1), false);
  wgmma_commit();
  if (broken) {
    wgmma_wait<2>(s);
  } else {
    wgmma_wait<1>(s);
  }
  for (auto& column : s) column[0] += 1.0f;
  wgmma_wait<0>(o);
  store_global(out + thread_index(), s[3][0] + o[0][0]);
}

// P, in registers, is overwritten while it is read.
void operand_overwritten(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  uint32_t p[4] = {1, 2, 3, 4};
  wgmma_fence();
  wgmma<bf16, Major::mn>(d, p, tile(0), false);
  wgmma_commit();
  if (!broken) wgmma_wait<0>(d);
  p[3] = 0x3f80'3f80;
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0] + static_cast<float>(p[3]));
}

void no_fence_at_first(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  if (!broken) wgmma_fence();
  wgmma<bf16>(d, tile(0), tile(1), false);
  wgmma_commit();
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

// The accumulator is scaled between two products.
void no_fence_behind_a_wait(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  wgmma_fence();
  for (int i = 0; i < 2; ++i) {
    if (i == 1 && !broken) wgmma_fence();
    wgmma<bf16>(d, tile(0), tile(1), i > 0);
    wgmma<bf16>(d, tile(0, 1), tile(1, 1), true);  // the same registers: no fence needed
    wgmma_commit();
    wgmma_wait<0>(d);
    for (auto& column : d)
      for (float& x : column) x *= 0.5f;
  }
  store_global(out + thread_index(), d[0][0]);
}

// Both are waited for at the end, but that wait hands back one of them only.
void one_wait_for_two(float* out, bool broken) {
  make_tiles();
  float s[8][4], o[8][4];
  wgmma_fence();
  wgmma<bf16>(s, tile(0), tile(1), false);
  wgmma_commit();
  wgmma<bf16>(o, tile(0), tile(1), false);
  wgmma_commit();
  if (broken) {
    wgmma_wait<0>(o);
  } else {
    wgmma_wait<0>(s, o);
  }
  store_global(out + thread_index(), s[3][0] + o[0][0]);
}

void never_waited_for(float*, bool broken) {
  make_tiles();
  float d[8][4];
  wgmma_fence();
  wgmma<bf16>(d, tile(0), tile(1), false);
  wgmma_commit();
  if (!broken) wgmma_wait<0>(d);
}

TEST_CASE("registers_in_flight") {
  const std::string text = twins(accumulator_read_early, "registers_in_flight");
  CHECK(text.find("writes accumulator 6 before its wgmma_wait") != std::string::npos);
  twins(waits_for_too_few, "registers_in_flight");
  twins(operand_overwritten, "registers_in_flight");
  CHECK(twins(no_fence_at_first, "registers_in_flight").find("without a wgmma_fence before it") !=
        std::string::npos);
  CHECK(twins(no_fence_behind_a_wait, "registers_in_flight")
            .find("without a wgmma_fence since its last wgmma_wait") != std::string::npos);
  CHECK(twins(one_wait_for_two, "registers_in_flight").find("which does not name them") !=
        std::string::npos);
  twins(never_waited_for, "registers_in_flight");
}

TEST_CASE("what is read too early is NaN; what is waited for is right") {
  Buffer<float> out(1024, "out");
  const Report report = fa::simt::run({}, [&] {
    launch(
        +[](float* result) {
          make_tiles();
          float d[8][4] = {};
          uint32_t p[4] = {0x3f80'3f80, 0x3f80'3f80, 0x3f80'3f80, 0x3f80'3f80};
          wgmma_fence();
          wgmma<bf16>(d, p, tile(1), true);
          wgmma<bf16>(d, tile(0), tile(1), true);
          wgmma_commit();
          store_global(result + thread_index(), d[7][3]);
          wgmma_wait<0>(d);
          store_global(result + 128 + thread_index(), d[7][3]);
          store_global(result + 256 + thread_index(), static_cast<float>(p[2] == 0x3f80'3f80));
        },
        1, kThreads, kSmem, out.data());
  });
  CHECK(texts(report) == "");
  for (size_t i = 0; i < 128; ++i) {
    CHECK(!(out[i] == out[i]));
    CHECK(out[128 + i] == 32.0f);
    CHECK(out[256 + i] == 1.0f);
  }
}

// Warps of a group wait at different times; a group ends as a whole.
void overlapped(float* out, bool) {
  make_tiles();
  float s[8][4], o[8][4] = {};
  for (int tile_number = 0; tile_number < 3; ++tile_number) {
    wgmma_fence();
    wgmma<bf16>(s, tile(0), tile(1), false);
    wgmma_commit();
    wgmma<bf16>(o, tile(0), tile(1), true);
    wgmma_commit();
    wgmma_wait<1>(s);
    for (auto& column : s) column[0] *= 2.0f;
    wgmma_wait<0>(o);
    for (auto& column : o) column[1] += s[0][0];
  }
  store_global(out + thread_index(), o[2][1]);
}

TEST_CASE("two groups in flight, under 100 schedules") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Config config;
    config.schedule_seed = seed;
    Buffer<float> out(1024, "out");
    const Report report = fa::simt::run(
        config, [&] { launch(overlapped, 1, 2 * kThreads, kSmem, out.data(), false); });
    CHECK(texts(report) == "");
    for (size_t i = 0; i < 256; ++i) CHECK(out[i] == 3 * (16.0f + 32.0f));
  }
}

void stores_without_proxy_fence(float* out, bool broken) {
  make_tiles(2, !broken);
  float d[8][4];
  wgmma_fence();
  wgmma<bf16>(d, tile(0), tile(1), false);
  wgmma_commit();
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

// A wgmma is going on: a block_sync does not wait for it.
void overwritten_while_multiplied(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  wgmma_fence();
  wgmma<bf16>(d, tile(0), tile(1), false);
  wgmma_commit();
  if (!broken) wgmma_wait<0>(d);
  block_sync();
  store_shared<uint32_t>(dynamic_smem() + 4u * static_cast<uint32_t>(thread_index()), 0);
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

void written_by_others(float* out, bool broken) {
  make_tiles();
  if (thread_index() == 127) {
    store_shared<uint32_t>(dynamic_smem() + kTile, 0);
    fence_proxy_async();
  }
  if (!broken) block_sync();
  float d[8][4];
  wgmma_fence();
  wgmma<bf16>(d, tile(0), tile(1), false);
  wgmma_commit();
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

TEST_CASE("operands that somebody else is writing") {
  twins(stores_without_proxy_fence, "missing_proxy_fence");
  twins(overwritten_while_multiplied, "overwrite_while_read");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Config config;
    config.schedule_seed = seed;
    CHECK(texts(run_kernel(written_by_others, config, false)) == "");
    CHECK(kinds(run_kernel(written_by_others, config, true)).find("read_before_barrier") !=
          std::string::npos);
  }
}

void multiply(float* out, uint64_t a, uint64_t b) {
  make_tiles();
  float d[8][4];
  wgmma_fence();
  wgmma<bf16>(d, a, b, false);
  wgmma_commit();
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

void leaves_shared_memory(float* out, bool broken) {
  make_tiles(kSmem / kTile);
  multiply(out, tile(0), broken ? tile(0) + (kSmem - 1024) / 16 : tile(1));
}
void reserved_bits(float* out, bool broken) {
  multiply(out, tile(0) | (broken ? uint64_t{1} << 47 : 0), tile(1));
}
void a_base_offset(float* out, bool broken) {
  multiply(out, tile(0) | (broken ? uint64_t{1} << 49 : 0), tile(1));
}
void in_the_middle_of_lines(float* out, bool broken) {
  make_tiles(3);
  multiply(out, broken ? advance_descriptor(tile(0), 3 * 128) : tile(0), tile(1));
}
void warps_disagree(float* out, bool broken) {
  multiply(out, tile(0), broken && thread_index() >= 64 ? tile(0) : tile(1));
}

TEST_CASE("bad_descriptor") {
  const std::string text = twins(leaves_shared_memory, "bad_descriptor");
  CHECK(text.find("gives a descriptor for B that leads to byte 49152 of dynamic shared memory, "
                  "which has 49152") != std::string::npos);
  twins(reserved_bits, "bad_descriptor");
  twins(a_base_offset, "bad_descriptor");
  twins(in_the_middle_of_lines, "bad_descriptor");
  twins(warps_disagree, "bad_descriptor");
}

// K's tile is 32 rows high: n = 64 runs on into V's.
void leaves_its_tile(const TensorMap K, const TensorMap V, float* out, bool broken) {
  const uint32_t landed = dynamic_smem() + kSmem - 8;
  if (thread_index() == 0) {
    mbarrier_init(landed, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(landed, kTile);
    tma_load_2d(dynamic_smem(), K, 0, 0, landed);
    tma_load_2d(dynamic_smem() + kTile / 2, V, 0, 0, landed);
  }
  block_sync();
  mbarrier_wait(landed, 0);
  float d[8][4];
  uint32_t a[4] = {};
  wgmma_fence();
  if (broken) {
    wgmma<bf16>(d, a, tile(0), false);
  } else {
    wgmma<bf16>(reinterpret_cast<float(&)[4][4]>(d), a, tile(0), false);
  }
  wgmma_commit();
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

TEST_CASE("a descriptor that leads into another tensor's tile") {
  Buffer<bf16> K(32 * 64, "K"), V(32 * 64, "V");
  Buffer<float> out(1024, "out");
  const auto map = [](const Buffer<bf16>& matrix) {
    return make_tensor_map(matrix.data(), {64, 32}, {128}, {64, 32}, Swizzle::bytes_128);
  };
  const std::string text = check_twins(
      [&](const Config& config, bool broken) {
        return fa::simt::run(config, [&] {
          launch(leaves_its_tile, 1, kThreads, kSmem, map(K), map(V), out.data(), broken);
        });
      },
      "bad_descriptor");
  CHECK(text.find("leads from a tile of K[0] into one of V[0], at byte 4096") != std::string::npos);
}

void half_of_a_warpgroup(float* out, bool broken) {
  make_tiles();
  float d[8][4];
  wgmma_fence();
  if (!broken || thread_index() < 64) {
    wgmma<bf16>(d, tile(0), tile(1), false);
  } else {
    wgmma<bf16>(d, tile(1), tile(1), false);
  }
  wgmma_commit();
  wgmma_wait<0>(d);
  store_global(out + thread_index(), d[0][0]);
}

TEST_CASE("a warpgroup calls one wgmma together") {
  twins(half_of_a_warpgroup, "barrier_divergence");
  CHECK_THROWS_WITH_AS(run_kernel(half_of_a_warpgroup, {}, false, 96),
                       doctest::Contains("multiple of 128"), std::runtime_error);
}

// Three warpgroups have 168 registers a thread, 504 in all.
void registers(float*, bool broken) {
  const int role = thread_index() / 128;
  if (role == 0) {
    if (!broken) setmaxnreg_dec<24>();
  } else {
    setmaxnreg_inc<240>();
  }
}

void too_many_registers(float*, bool broken) {
  const int role = thread_index() / 128;
  if (role == 0) {
    setmaxnreg_dec<24>();
  } else if (broken) {
    setmaxnreg_inc<248>();
  } else {
    setmaxnreg_inc<240>();
  }
}

TEST_CASE("setmaxnreg: what one warpgroup gives up, others may take") {
  const std::string text = twins(registers, "deadlock", 384);
  CHECK(text.find("8 warps (warp 4 first) wait at setmaxnreg_inc 240 (") != std::string::npos);
  CHECK(text.find("0 registers a thread are free") != std::string::npos);
  twins(too_many_registers, "deadlock", 384);
  CHECK_THROWS_WITH_AS(
      launch(
          +[] { setmaxnreg_dec<240>(); }, 1, 384, 0),
      doctest::Contains("setmaxnreg_dec to 240 registers, but each thread has 168"),
      std::runtime_error);
}

TEST_CASE("elect_one, and a vote on a named barrier") {
  Buffer<float> out(1024, "out");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Config config;
    config.schedule_seed = seed;
    const Report report = fa::simt::run(config, [&] {
      launch(
          +[](float* result) {
            const int t = thread_index(), group = t / 128;
            const bool elected = elect_one();
            float votes = 0;
            for (int round = 0; round < 3; ++round) {
              const bool vote = group == 0 ? round == 1 && t == 77 : round != 1;
              votes = votes * 2 + static_cast<float>(barrier_red_or(1 + group, 128, vote));
            }
            store_global(result + t, votes + (elected ? 10.0f : 0.0f));
          },
          1, 256, 0, out.data());
    });
    CHECK(texts(report) == "");
    for (int t = 0; t < 256; ++t) {
      CHECK(out[static_cast<size_t>(t)] == (t < 128 ? 2.0f : 5.0f) + (t % 32 == 0 ? 10.0f : 0.0f));
    }
  }
}

}  // namespace
