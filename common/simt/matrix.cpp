#include "common/simt/matrix.hpp"

#include <algorithm>
#include <cstring>

#include "common/tensor_core.hpp"

namespace fa::simt {

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
  constexpr int kRows = 16, kColumns = 8;
  alignas(32) uint32_t A[kWordsAtATime][kRows], B[kColumns][kWordsAtATime];
  alignas(32) float C[kColumns][kRows];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) A[t + i / 2 * 4][g + i % 2 * 8] = a[lane][i];
    for (int i = 0; i < 2; ++i) B[g][t + i * 4] = b[lane][i];
    for (int i = 0; i < 4; ++i) C[2 * t + i % 2][g + i / 2 * 8] = c[lane][i];
  }
  tensor_core_multiply<T, kRows>(C[0], kColumns, A[0], B[0]);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) c[lane][i] = C[2 * t + i % 2][g + i / 2 * 8];
  }
}

#define FA_INSTANTIATE(T)                                                   \
  template void multiply_accumulate<T>(const uint32_t* const(&)[kWarpSize], \
                                       const uint32_t* const(&)[kWarpSize], \
                                       float* const(&)[kWarpSize]);
FA_INSTANTIATE(bf16)
FA_INSTANTIATE(fp16)
FA_INSTANTIATE(tf32)
FA_INSTANTIATE(e4m3)
FA_INSTANTIATE(e5m2)
using E4m3E5m2 = Mixed<e4m3, e5m2>;
using E5m2E4m3 = Mixed<e5m2, e4m3>;
FA_INSTANTIATE(E4m3E5m2)
FA_INSTANTIATE(E5m2E4m3)
#undef FA_INSTANTIATE

template <class TA, class TB>
void multiply_accumulate_8bit(const uint32_t* const (&a)[kWarpSize],
                              const uint32_t* const (&b)[kWarpSize], void* const (&c)[kWarpSize],
                              bool saturates) {
  const auto number = [](uint32_t four, int i) { return static_cast<uint8_t>(four >> 8 * i); };
  TA A[16][32];
  TB B[8][32];  // B[column][k]
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      for (int r = 0; r < 4; ++r)
        A[g + r % 2 * 8][4 * t + r / 2 * 16 + i] = static_cast<TA>(number(a[lane][r], i));
      for (int r = 0; r < 2; ++r) B[g][4 * t + r * 16 + i] = static_cast<TB>(number(b[lane][r], i));
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    uint32_t sums[4];  // unsigned, so that sums wrap as on hardware
    std::memcpy(sums, c[lane], sizeof sums);
    for (int i = 0; i < 4; ++i) {
      const TA* const row = A[lane / 4 + i / 2 * 8];
      const TB* const column = B[lane % 4 * 2 + i % 2];
      int32_t sum = 0;
      for (int k = 0; k < 32; ++k) sum += row[k] * column[k];
      const int64_t exact = int64_t{static_cast<int32_t>(sums[i])} + sum;
      sums[i] += static_cast<uint32_t>(sum);
      if (saturates)
        sums[i] = static_cast<uint32_t>(std::clamp<int64_t>(exact, INT32_MIN, INT32_MAX));
    }
    std::memcpy(c[lane], sums, sizeof sums);
  }
}

#define FA_INSTANTIATE(TA, TB)                                                        \
  template void multiply_accumulate_8bit<TA, TB>(const uint32_t* const(&)[kWarpSize], \
                                                 const uint32_t* const(&)[kWarpSize], \
                                                 void* const(&)[kWarpSize], bool);
FA_INSTANTIATE(int8_t, int8_t)
FA_INSTANTIATE(int8_t, uint8_t)
FA_INSTANTIATE(uint8_t, int8_t)
FA_INSTANTIATE(uint8_t, uint8_t)
#undef FA_INSTANTIATE

}  // namespace fa::simt
