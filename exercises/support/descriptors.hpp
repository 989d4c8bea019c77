#pragma once
// Shared by the tests of 13.1 and 13.2, which use a tile that tensor copies have brought, and the
// elements that wgmma reads from it through a descriptor.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/simt/descriptor.hpp"
#include "exercises/support/warp.hpp"

namespace exercise {

// The element at [row][column] of a matrix of `columns` columns, as an fp16 that tells its place,
// because no two are equal, none is 0, all are finite. Fewer than 31743 of them.
inline uint16_t element_label(int row, int column, int columns) {
  return static_cast<uint16_t>(row * columns + column + 1);
}
inline void label_elements(fa::simt::Buffer<fa::fp16>& matrix) {
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i].bits = static_cast<uint16_t>(i + 1);
}

// The elements of operand B that wgmma read, [16 of k][n], and the emulator's report.
struct MatrixRead {
  int n;
  std::vector<uint16_t> labels;
  fa::simt::Report report;
};

constexpr uint32_t BEFORE_TILE = 2048, BEHIND_TILE = 4096;  // bytes that no thread has written

// Fills shared memory by load(smem, mbarrier), called by one thread, which brings `bytes` to
// `smem`, and then reads a matrix [16, N] of fp16 through descriptor(smem). Operand A is the
// identity, so the product has the elements themselves. The bytes before and after the tile are not
// written.
template <int N, emulator::Major MAJOR, class Load, class Descriptor>
MatrixRead read_through_descriptor(uint32_t bytes, Load load, Descriptor descriptor) {
  using namespace emulator;
  MatrixRead read{N, std::vector<uint16_t>(16 * N, UNWRITTEN), {}};
  read.report = run_block(128, BEFORE_TILE + bytes + BEHIND_TILE, [&] {
    const uint32_t full = dynamic_smem(), smem = full + BEFORE_TILE;
    const uint64_t bits = descriptor(smem);
    if (thread_index() == 0) {
      mbarrier_init(full, 1);
      fence_mbarrier_init();
      mbarrier_arrive_expect_tx(full, bytes);
      load(smem, full);
    }
    block_sync();
    mbarrier_wait(full, 0);
    const uint32_t one = fa::from_float<fa::fp16>(1.0f).bits;
    const int row = lane_index() / 4, column = lane_index() % 4 * 2;
    uint32_t a[4];
    for (int i = 0; i < 4; ++i) {
      const int k = column + i / 2 * 8 - i % 2 * 8 - row;  // 0 or -1: on the diagonal
      a[i] = k == 0 ? one : k == -1 ? one << 16 : 0;
    }
    float d[N / 8][4];
    wgmma_fence();
    wgmma<fa::fp16, MAJOR>(d, a, bits, false);
    wgmma_commit();
    wgmma_wait<0>(d);
    if (warp_index() != 0) return;
    for (int j = 0; j < N / 8; ++j)
      for (int i = 0; i < 4; ++i)
        read.labels[(row + i / 2 * 8) * N + j * 8 + column + i % 2] =
            d[j][i] == d[j][i] ? fa::from_float<fa::fp16>(d[j][i]).bits : UNWRITTEN;
  });
  return read;
}

// "K[3][17]"
inline std::string element_name(const std::string& matrix, int columns, uint16_t label) {
  if (label == UNWRITTEN || label == 0) return "bytes that no thread has written";
  return matrix + "[" + std::to_string((label - 1) / columns) + "][" +
         std::to_string((label - 1) % columns) + "]";
}

// How wgmma takes the bits apart.
inline std::string descriptor_words(uint64_t bits, uint32_t smem) {
  const fa::simt::MatrixDescriptor descriptor(bits);
  const int64_t start = int64_t{descriptor.start} - smem;
  return std::string("wgmma reads the descriptor as: start ") +
         (start < 0 ? "smem - " : "smem + ") + std::to_string(start < 0 ? -start : start) +
         " (smem is byte " + std::to_string(BEFORE_TILE) + ")" + ", leading distance " +
         std::to_string(descriptor.leading) + ", stride " + std::to_string(descriptor.stride) +
         ", swizzle of " +
         (descriptor.swizzle == fa::Swizzle::none
              ? "none"
              : std::to_string(fa::swizzle_span(descriptor.swizzle)) + " bytes") +
         (descriptor.reserved || descriptor.base_offset ? ", and bits set that mean nothing here"
                                                        : "");
}

}  // namespace exercise
