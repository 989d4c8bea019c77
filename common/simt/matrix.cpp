#include "common/simt/matrix.hpp"

#include <bit>
#include <cstring>

namespace fa::simt {

namespace {

// Four floats that are added and multiplied at once: GCC's and Clang's portable vectors, because
// GCC 12 does not vectorise the loops below by itself (1.0 us instead of 0.3 us for an mma).
typedef float Float4 __attribute__((vector_size(16)));

template <class T>
float low_half(uint32_t pair) {
  return to_float(T{static_cast<uint16_t>(pair)});
}
template <class T>
float high_half(uint32_t pair) {
  return to_float(T{static_cast<uint16_t>(pair >> 16)});
}

}  // namespace

void load_matrix(const unsigned char* const (&rows)[8], bool trans,
                 uint32_t* const (&registers)[kWarpSize], int slot) {
  if (!trans) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      std::memcpy(&registers[lane][slot], rows[lane / 4] + lane % 4 * 4, 4);
    }
    return;
  }
  uint16_t m[8][8];
  for (int row = 0; row < 8; ++row) std::memcpy(m[row], rows[row], 16);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int column = lane / 4, row = lane % 4 * 2;
    registers[lane][slot] = m[row][column] | static_cast<uint32_t>(m[row + 1][column]) << 16;
  }
}

template <class T>
void multiply_accumulate(const uint32_t* const (&a)[kWarpSize],
                         const uint32_t* const (&b)[kWarpSize], float* const (&c)[kWarpSize]) {
  // Everything as fp32 first, columns together: four rows at a time are then one vector.
  alignas(16) float A[16][16], C[8][16];  // A[k][row], C[column][row]
  float B[8][16];                         // B[column][k]
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
      A[k][row] = low_half<T>(a[lane][i]);
      A[k + 1][row] = high_half<T>(a[lane][i]);
    }
    for (int i = 0; i < 2; ++i) {
      B[g][2 * t + i * 8] = low_half<T>(b[lane][i]);
      B[g][2 * t + i * 8 + 1] = high_half<T>(b[lane][i]);
    }
    for (int i = 0; i < 4; ++i) C[2 * t + i % 2][g + i / 2 * 8] = c[lane][i];
  }
  for (int column = 0; column < 8; ++column) {
    Float4 sum[4];
    std::memcpy(sum, C[column], sizeof sum);
    for (int k = 0; k < 16; ++k) {
      Float4 rows[4];
      std::memcpy(rows, A[k], sizeof rows);
      for (int i = 0; i < 4; ++i) sum[i] += rows[i] * B[column][k];
    }
    std::memcpy(C[column], sum, sizeof sum);
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) c[lane][i] = C[2 * t + i % 2][g + i / 2 * 8];
  }
}

template void multiply_accumulate<bf16>(const uint32_t* const (&)[kWarpSize],
                                        const uint32_t* const (&)[kWarpSize],
                                        float* const (&)[kWarpSize]);
template void multiply_accumulate<fp16>(const uint32_t* const (&)[kWarpSize],
                                        const uint32_t* const (&)[kWarpSize],
                                        float* const (&)[kWarpSize]);

void multiply_accumulate_s8(const uint32_t* const (&a)[kWarpSize],
                            const uint32_t* const (&b)[kWarpSize], void* const (&c)[kWarpSize]) {
  const auto number = [](uint32_t four, int i) {
    return static_cast<int8_t>(static_cast<uint8_t>(four >> 8 * i));
  };
  int8_t A[16][32], B[8][32];  // B[column][k]
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      for (int r = 0; r < 4; ++r) A[g + r % 2 * 8][4 * t + r / 2 * 16 + i] = number(a[lane][r], i);
      for (int r = 0; r < 2; ++r) B[g][4 * t + r * 16 + i] = number(b[lane][r], i);
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    uint32_t sums[4];  // unsigned: it wraps, as on hardware
    std::memcpy(sums, c[lane], sizeof sums);
    for (int i = 0; i < 4; ++i) {
      const int8_t* const row = A[lane / 4 + i / 2 * 8];
      const int8_t* const column = B[lane % 4 * 2 + i % 2];
      int32_t sum = 0;
      for (int k = 0; k < 32; ++k) sum += row[k] * column[k];
      sums[i] += static_cast<uint32_t>(sum);
    }
    std::memcpy(c[lane], sums, sizeof sums);
  }
}

}  // namespace fa::simt
