// An example of your own kernel on the emulator: transposes a 32x32 tile through shared memory.
//
//   simt_example                        rows of 32 floats: a column is in a single bank
//   simt_example --pitch 33             one float of padding: no bank conflicts
//   simt_example --without-barrier      the emulator reports a race

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/cli.hpp"
#include "common/guarded_main.hpp"
#include "common/simt/simt.hpp"
#include "common/words.hpp"

// [anchor: kernel]
namespace FA_BACKEND::example {

constexpr int TILE = 32;
constexpr int NUM_THREADS = 128;

// out = in.T   [TILE, TILE], by one block; rows of shared memory are `pitch` floats long
FA_KERNEL void transpose(const float* in, float* out, int pitch, bool with_barrier) {
  const int column = thread_index() % TILE, first_row = thread_index() / TILE;
  const auto smem = [&](int row, int col) { return dynamic_smem() + 4u * (row * pitch + col); };

  for (int row = first_row; row < TILE; row += NUM_THREADS / TILE)
    store_shared<float>(smem(row, column), load_global(in + row * TILE + column));
  if (with_barrier) block_sync();  // the tile is complete
  for (int row = first_row; row < TILE; row += NUM_THREADS / TILE)
    store_global(out + row * TILE + column, load_shared<float>(smem(column, row)));
}

}  // namespace FA_BACKEND::example
// [/anchor: kernel]

namespace {

int transpose_program(int argc, char** argv) {
  int64_t pitch = 32;
  bool without_barrier = false;
  fa::Cli cli("simt_example", "Transposes a 32x32 tile on the SIMT emulator.");
  cli.integer("--pitch", pitch, 32, 64, "floats from one row of shared memory to the next");
  cli.flag("--without-barrier", without_barrier, "leave out the barrier between store and load");
  cli.parse(argc, argv);

  // [anchor: host]
  using namespace emulator::example;
  fa::simt::Buffer<float> in(TILE * TILE, "in"), out(TILE * TILE, "out");
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);

  const fa::simt::Report report = fa::simt::run(fa::simt::Config{}, [&] {
    emulator::launch(transpose, 1, NUM_THREADS, TILE * pitch * sizeof(float), in.data(), out.data(),
                     static_cast<int>(pitch), !without_barrier);
  });

  for (const fa::simt::CounterField& field : fa::simt::kCounterFields)
    if (const int64_t value = report.counters.*field.value)
      std::printf("%-30s %5lld%s\n", field.name, static_cast<long long>(value),
                  is_estimate(report.counters, field.name) ? "  (estimate)" : "");
  for (const fa::simt::Hazard& hazard : report.hazards)
    std::printf("%s\n", fa::wrapped(hazard.text).c_str());
  // [/anchor: host]

  bool correct = true;
  for (size_t i = 0; i < out.size(); ++i) {
    correct = correct && out[i] == in[i % TILE * TILE + i / TILE];
  }
  std::printf("%s\n", correct ? "out = in.T" : "out is wrong");
  return correct && report.hazards.empty() ? fa::kAgreed : fa::kDisagreed;
}

}  // namespace

int main(int argc, char** argv) { return fa::guarded_main(argc, argv, transpose_program); }
