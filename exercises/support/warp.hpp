#pragma once
// Shared by the tests of chapters 03 to 07. They run code on the emulator, one block at a time, and
// describe the result in words and pictures.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/kernels/geometry.hpp"
#include "common/simt/simt.hpp"
#include "exercises/support/verdict.hpp"

namespace exercise {

// Runs thread() in each of `threads` threads of one block.
fa::simt::Report run_block(int threads, size_t smem_bytes, const std::function<void()>& thread,
                           const fa::simt::Config& config = {});

// cp_async_wait<groups>, where the number is not known before.
inline void wait_for_groups(int groups, int line = __builtin_LINE(),
                            const char* file = __builtin_FILE()) {
  emulator::detail::cp_async_wait(groups, "", line, file);
}

// All threads of the block together write a matrix to shared memory, and wait for each other.
// where(offset) is the byte at which the 16-byte chunk at `offset` of the row-major matrix is kept.
template <class Where>
void fill_shared(uint32_t smem, const std::vector<uint16_t>& matrix, int threads, Where where) {
  struct alignas(16) Chunk {
    uint16_t element[8];
  };
  for (size_t chunk = emulator::thread_index(); chunk < matrix.size() / 8; chunk += threads) {
    Chunk value;
    for (int i = 0; i < 8; ++i) value.element[i] = matrix[chunk * 8 + i];
    emulator::store_shared<Chunk>(smem + where(static_cast<uint32_t>(chunk * 16)), value);
  }
  emulator::block_sync();
}
inline void fill_shared(uint32_t smem, const std::vector<uint16_t>& matrix, int threads = 32) {
  fill_shared(smem, matrix, threads, [](uint32_t offset) { return offset; });
}

// The emulator's value for bytes that were not written, and for illegal addresses, which is a NaN.
constexpr uint16_t UNWRITTEN = 0xFFFF;

// A matrix whose 16-bit elements tell their place, fewer than 65535 of them.
std::vector<uint16_t> labelled_matrix(int rows, int columns);

// The registers of a warp after loading pieces of a labelled matrix: [lane * registers + register],
// and the emulator's report.
struct Fragments {
  int registers;
  std::vector<uint32_t> values;
  fa::simt::Report report;

  explicit Fragments(int count) : registers(count), values(32 * count, 0xFFFFFFFFu) {}
  // Keeps the registers of this lane, emulator::lane_index().
  void keep(const uint32_t* r) {
    for (int i = 0; i < registers; ++i) values[emulator::lane_index() * registers + i] = r[i];
  }
};

// The same, known to come from a mistake that people make.
struct FragmentsMistake {
  std::string name;
  Fragments fragments;
  std::string explanation;
};

// Compares all registers, and on a difference, or a hazard, fails with the hazards, the first wrong
// register, and which 8x8 pieces the registers hold. `columns` of the labelled matrix.
struct Labels {
  std::string row = "row", column = "column";  // as the exercise calls them
  int columns = 16;
  std::string array = "A_rmem";  // for A_rmem[i][0] to A_rmem[i][of_each - 1]
  size_t of_each = 4;
  std::string register_name(size_t r) const;
};
void check_fragments(const Labels& labels, const Fragments& got, const Fragments& expected,
                     const std::vector<FragmentsMistake>& mistakes, int line = __builtin_LINE(),
                     const char* file = __builtin_FILE());

// The hazards as the emulator words them, one a line.
std::string hazards(const fa::simt::Report& report);
// The kinds of hazards, each once, one per line, because they do not depend on the order of the
// threads.
std::string hazard_kinds(const fa::simt::Report& report);
// Warp 0's calls in a run with events, that is, whether it commits, and how many waits and barriers
// it has in each of `turns`, counted up to `most_waits` and `most_barriers`.
std::string synchronization(const fa::simt::Report& report, int turns, int most_waits,
                            int most_barriers);
bool has(const fa::simt::Report& report, fa::simt::HazardKind kind);

// Fails with the hazards if there are any.
void check_no_hazards(const fa::simt::Report& report, const std::vector<Suspect>& suspects = {},
                      int line = __builtin_LINE(), const char* file = __builtin_FILE());

// Which banks eight rows of 16 bytes hit, a line for each row.
std::string bank_map(const uint32_t (&addresses)[8]);

}  // namespace exercise

// As in instances.hpp, instantiated in warp.cpp.
extern template class std::function<void()>;
extern template class std::vector<uint16_t>;
extern template class std::vector<uint32_t>;
extern template class std::vector<fa::simt::Event>;
extern template class std::vector<fa::simt::Hazard>;
extern template class std::vector<fa::simt::LeaveOut>;
extern template class std::vector<fa::simt::Synchronization>;
extern template class std::vector<fa::simt::TileRow>;
