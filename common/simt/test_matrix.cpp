// Compares ldmatrix and mma element by element with the figures of the PTX ISA.

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/simt/device.hpp"
#include "common/simt/matrix.hpp"
#include "common/simt/simt.hpp"
#include "common/tensor_core.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;

// Element (row, column) of matrix i holds 100 i + 10 row + column.
uint16_t element(int matrix, int row, int column) {
  return static_cast<uint16_t>(100 * matrix + 10 * row + column);
}

// Loads COUNT matrices with rows 16 bytes apart and stores each lane's registers in `registers`
// [32][4].
template <int COUNT, bool TRANS>
void ldmatrix_kernel(const uint16_t* matrices, uint32_t* registers) {
  const int lane = thread_index();
  const uint32_t row = dynamic_smem() + static_cast<uint32_t>(lane) * 16;
  for (int i = 0; i < 8; ++i) {
    store_shared<uint16_t>(row + static_cast<uint32_t>(2 * i),
                           load_global(matrices + 8 * lane + i));
  }
  warp_sync();
  // Lanes 8 COUNT and up pass an invalid address, which must not be used.
  const uint32_t address = lane < 8 * COUNT ? row : 0xdead0000u;
  uint32_t r[4] = {};
  if constexpr (COUNT == 1) {
    uint32_t one[1];
    TRANS ? ldmatrix_x1_trans(one, address) : ldmatrix_x1(one, address);
    r[0] = one[0];
  } else if constexpr (COUNT == 2) {
    uint32_t two[2];
    TRANS ? ldmatrix_x2_trans(two, address) : ldmatrix_x2(two, address);
    r[0] = two[0], r[1] = two[1];
  } else {
    TRANS ? ldmatrix_x4_trans(r, address) : ldmatrix_x4(r, address);
  }
  for (int i = 0; i < 4; ++i) store_global(registers + 4 * lane + i, r[i]);
}

template <int COUNT, bool TRANS>
void check_ldmatrix() {
  CAPTURE(COUNT);
  CAPTURE(TRANS);
  Buffer<uint16_t> matrices(4 * 64, "matrices");
  Buffer<uint32_t> registers(32 * 4, "registers");
  for (int m = 0; m < 4; ++m) {
    for (int i = 0; i < 64; ++i)
      matrices[static_cast<size_t>(64 * m + i)] = element(m, i / 8, i % 8);
  }
  const fa::simt::Report report = fa::simt::run({}, [&] {
    launch(ldmatrix_kernel<COUNT, TRANS>, 1, 32, 512, matrices.data(), registers.data());
  });
  CHECK(report.hazards.empty());
  for (int lane = 0; lane < 32; ++lane) {
    for (int m = 0; m < 4; ++m) {
      // PTX: thread t holds row t/4, elements 2(t%4) and 2(t%4)+1. With .trans, rows are columns.
      const int major = lane / 4, minor = 2 * (lane % 4);
      const uint16_t low = TRANS ? element(m, minor, major) : element(m, major, minor);
      const uint16_t high = TRANS ? element(m, minor + 1, major) : element(m, major, minor + 1);
      const uint32_t expected = m < COUNT ? low | static_cast<uint32_t>(high) << 16 : 0;
      CAPTURE(lane);
      CAPTURE(m);
      CHECK(registers[static_cast<size_t>(4 * lane + m)] == expected);
    }
  }
}

TEST_CASE("ldmatrix gives every lane the elements of the PTX figure") {
  check_ldmatrix<1, false>();
  check_ldmatrix<1, true>();
  check_ldmatrix<2, false>();
  check_ldmatrix<2, true>();
  check_ldmatrix<4, false>();
  check_ldmatrix<4, true>();
}

// A [16,16], B [16,8], C [16,8] fp32; fragments filled by the formulas of PTX ISA, "Matrix
// Fragments for mma.m16n8k16 with floating point type": groupID = lane >> 2, ...
template <class T>
void mma_kernel(const T* A, const T* B, float* C) {
  const int lane = thread_index(), group = lane >> 2, in_group = lane % 4;
  const auto pair = [](T low, T high) { return low.bits | static_cast<uint32_t>(high.bits) << 16; };
  uint32_t a[4], b[2];
  for (int i = 0; i < 8; i += 2) {
    const int row = (i < 2 || (i >= 4 && i < 6)) ? group : group + 8;
    const int column = in_group * 2 + (i >= 4 ? 8 : 0);
    a[i / 2] = pair(load_global(A + 16 * row + column), load_global(A + 16 * row + column + 1));
  }
  for (int i = 0; i < 4; i += 2) {
    const int row = in_group * 2 + (i >= 2 ? 8 : 0);
    b[i / 2] = pair(load_global(B + 8 * row + group), load_global(B + 8 * (row + 1) + group));
  }
  float c[4];
  for (int i = 0; i < 4; ++i) {
    c[i] = load_global(C + 8 * (i < 2 ? group : group + 8) + in_group * 2 + (i & 1));
  }
  mma_m16n8k16<T>(a, b, c);
  for (int i = 0; i < 4; ++i) {
    store_global(C + 8 * (i < 2 ? group : group + 8) + in_group * 2 + (i & 1), c[i]);
  }
}

template <class T>
struct Operands {
  Buffer<T> A{256, "A"}, B{128, "B"};
  Buffer<float> C{128, "C"};
  void multiply() {
    const fa::simt::Report report =
        fa::simt::run({}, [&] { launch(mma_kernel<T>, 1, 32, 0, A.data(), B.data(), C.data()); });
    CHECK(report.hazards.empty());
    CHECK(report.counters.mma_instructions == 1);
  }
};

TEST_CASE_TEMPLATE("mma multiplies each pair of elements exactly where it belongs", T, fa::bf16,
                   fa::fp16) {
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      Operands<T> x;  // one element of A, and a different value in each column of B's row k
      x.A[static_cast<size_t>(16 * row + k)] = fa::from_float<T>(2.0f);
      for (int i = 0; i < 128; ++i)
        x.B[static_cast<size_t>(i)] = fa::from_float<T>(static_cast<float>(i));
      x.multiply();
      for (int i = 0; i < 16; ++i) {
        for (int n = 0; n < 8; ++n) {
          const float expected = i == row ? 2.0f * static_cast<float>(8 * k + n) : 0.0f;
          CHECK(x.C[static_cast<size_t>(8 * i + n)] == expected);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("mma adds as a tensor core does", T, fa::bf16, fa::fp16) {
  Operands<T> x;
  uint32_t state = 7;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state)) * 0x1p-28f;
  };
  for (T& a : x.A) a = fa::from_float<T>(next());
  for (T& b : x.B) b = fa::from_float<T>(next());
  for (float& c : x.C) c = next();
  const std::vector<float> c0(x.C.begin(), x.C.end());
  x.multiply();
  for (size_t i = 0; i < 16; ++i) {
    for (size_t n = 0; n < 8; ++n) {
      float a[16], b[16];
      for (size_t k = 0; k < 16; ++k) {
        a[k] = fa::to_float(x.A[16 * i + k]);
        b[k] = fa::to_float(x.B[8 * k + n]);
      }
      CHECK(x.C[8 * i + n] == fa::tensor_core_sum<T>(c0[8 * i + n], a, 1, b));
    }
  }
}

TEST_CASE_TEMPLATE("NaN and infinity go through mma", T, fa::bf16, fa::fp16) {
  Operands<T> x;
  x.A[0] = fa::from_float<T>(std::numeric_limits<float>::quiet_NaN());  // row 0
  x.A[16] = fa::from_float<T>(std::numeric_limits<float>::infinity());  // row 1
  for (T& b : x.B) b = fa::from_float<T>(1.0f);
  x.multiply();
  CHECK(!(x.C[0] == x.C[0]));
  CHECK(x.C[8] == std::numeric_limits<float>::infinity());
  CHECK(x.C[16] == 0.0f);
}

void shuffle_kernel(float* out, int mask) {
  store_global(out + thread_index(), shfl_xor(static_cast<float>(thread_index()), mask));
}

TEST_CASE("shfl_xor hands over the value of lane ^ mask") {
  Buffer<float> out(32, "out");
  for (int mask = 0; mask < 32; ++mask) {
    const fa::simt::Report report =
        fa::simt::run({}, [&] { launch(shuffle_kernel, 1, 32, 0, out.data(), mask); });
    CHECK(report.counters.shuffle_instructions == 1);
    for (int lane = 0; lane < 32; ++lane) {
      CHECK(out[static_cast<size_t>(lane)] == static_cast<float>(lane ^ mask));
    }
  }
}

void shuffle_from_kernel(int* out, int source) {
  store_global(out + thread_index(), shfl(-7 * thread_index(), source));
}

TEST_CASE("shfl hands the value of one lane to all") {
  Buffer<int> out(64, "out");
  for (int source = 0; source < 32; ++source) {
    const fa::simt::Report report =
        fa::simt::run({}, [&] { launch(shuffle_from_kernel, 1, 64, 0, out.data(), source); });
    CHECK(report.counters.shuffle_instructions == 2);
    for (int thread = 0; thread < 64; ++thread) {
      CHECK(out[static_cast<size_t>(thread)] == -7 * (source + thread / 32 * 32));
    }
  }
}

// Warp 0 votes with the bits of `votes`, warp 1 with those of `next`, and then the reverse.
void vote_kernel(float* out, uint32_t votes, uint32_t next) {
  const int lane = thread_index() % 32;
  const bool first = (thread_index() < 32 ? votes : next) >> lane & 1;
  const bool second = (thread_index() < 32 ? next : votes) >> lane & 1;
  const bool any_first = warp_any(first), any_second = warp_any(second);
  store_global(out + thread_index(), any_first * 10.0f + any_second);
}

TEST_CASE("warp_any tells every lane of the warp, and no other, whether one lane said yes") {
  Buffer<float> out(64, "out");
  const uint32_t cases[] = {0, 1, 1u << 31, 1u << 16, 0x8000'0001u, 0x0f0f'0f0fu, ~0u};
  for (const uint32_t votes : cases) {
    for (const uint32_t next : cases) {
      for (const uint64_t seed : {0, 1, 2, 3}) {
        fa::simt::Config config{.schedule_seed = seed};
        const fa::simt::Report report =
            fa::simt::run(config, [&] { launch(vote_kernel, 1, 64, 0, out.data(), votes, next); });
        CHECK(report.hazards.empty());
        CHECK(report.counters.shuffle_instructions == 0);
        for (size_t i = 0; i < 64; ++i) {
          const bool first = (i < 32 ? votes : next) != 0, second = (i < 32 ? next : votes) != 0;
          CHECK(out[i] == first * 10.0f + second);
        }
      }
    }
  }
}

void fma_kernel(float* out, float a, float b, float c) { store_global(out, fma(a, b, c)); }

TEST_CASE("fma rounds once, and passes NaN on") {
  Buffer<float> out(1, "out");
  const auto result = [&](float a, float b, float c) {
    fa::simt::run({}, [&] { launch(fma_kernel, 1, 1, 0, out.data(), a, b, c); });
    return out[0];
  };
  CHECK(result(2, 3, 4) == 10);
  const float x = 1 + 0x1p-12f;  // x x = 1 + 2^-11 + 2^-24, and fp32 loses the last term
  CHECK(x * x - (1 + 0x1p-11f) == 0);
  CHECK(result(x, x, -(1 + 0x1p-11f)) == 0x1p-24f);
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(result(1e30f, 1e30f, -1e30f) == infinity);
  CHECK(result(1e30f, 1e30f, -infinity) == -infinity);  // the product itself is finite
  for (const float c : {1.0f, infinity}) {
    const float nan = result(infinity, 0, c);
    CHECK(nan != nan);
  }
}

void pack_kernel(uint32_t* out) {
  if (thread_index() == 0) store_global(out, pack_bf16x2(1.0f, 1.00390625f + 0.0078125f));
}

TEST_CASE("pack_bf16x2 rounds to nearest even, low half first") {
  Buffer<uint32_t> out(1, "out");
  fa::simt::run({}, [&] { launch(pack_kernel, 1, 32, 0, out.data()); });
  CHECK(out[0] == 0x3f823f80u);  // 1 + 3/256 is halfway between 0x3f81 and 0x3f82
}

// A [16,32], B [32,8], C [16,8] int32. Fragments follow the formulas of PTX ISA, "Matrix Fragments
// for mma.m16n8k32".
void mma_s8_kernel(const int8_t* A, const int8_t* B, int* C) {
  const int lane = thread_index(), group = lane >> 2, in_group = lane % 4;
  uint32_t a[4] = {}, b[2] = {};
  for (int i = 0; i < 16; ++i) {
    const int row = (i < 4 || (i >= 8 && i < 12)) ? group : group + 8;
    const int column = in_group * 4 + i % 4 + (i >= 8 ? 16 : 0);
    a[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(load_global(A + 32 * row + column)))
                << 8 * (i % 4);
  }
  for (int i = 0; i < 8; ++i) {
    const int row = in_group * 4 + i % 4 + (i >= 4 ? 16 : 0);
    b[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(load_global(B + 8 * row + group)))
                << 8 * (i % 4);
  }
  int c[4];
  for (int i = 0; i < 4; ++i)
    c[i] = load_global(C + 8 * (i < 2 ? group : group + 8) + in_group * 2 + i % 2);
  mma_m16n8k32_s8(a, b, c);
  for (int i = 0; i < 4; ++i)
    store_global(C + 8 * (i < 2 ? group : group + 8) + in_group * 2 + i % 2, c[i]);
}

TEST_CASE("mma of 8-bit integers is exact, and wraps") {
  std::mt19937 random(32);
  for (int round = 0; round < 20; ++round) {
    Buffer<int8_t> A(16 * 32, "A"), B(32 * 8, "B");
    Buffer<int> C(16 * 8, "C");
    for (size_t i = 0; i < A.size(); ++i) A[i] = static_cast<int8_t>(round == 0 ? -128 : random());
    for (size_t i = 0; i < B.size(); ++i) B[i] = static_cast<int8_t>(round == 0 ? -128 : random());
    for (size_t i = 0; i < C.size(); ++i)
      C[i] = round == 0 ? INT32_MAX : static_cast<int>(random());
    std::vector<uint32_t> expected(C.size());
    for (size_t row = 0; row < 16; ++row)
      for (size_t column = 0; column < 8; ++column) {
        uint32_t sum = static_cast<uint32_t>(C[row * 8 + column]);
        for (size_t k = 0; k < 32; ++k)
          sum += static_cast<uint32_t>(A[row * 32 + k] * B[k * 8 + column]);
        expected[row * 8 + column] = sum;
      }
    const fa::simt::Report report =
        fa::simt::run({}, [&] { launch(mma_s8_kernel, 1, 32, 0, A.data(), B.data(), C.data()); });
    CHECK(report.hazards.empty());
    CHECK(report.counters.mma_instructions == 1);
    for (size_t i = 0; i < C.size(); ++i) CHECK(static_cast<uint32_t>(C[i]) == expected[i]);
  }
}

}  // namespace
