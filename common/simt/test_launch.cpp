// Grids and blocks of up to three dimensions, and launches that no GPU accepts.

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "common/error.hpp"
#include "common/simt/device.hpp"
#include "common/simt/simt.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;

// Each thread of each block writes its number, which it computes from its index.
void number(int* out) {
  const Dim3 thread = thread_index_3d(), block = block_index_3d();
  const Dim3 threads = block_size(), blocks = grid_size();
  const int in_block = (thread.z * threads.y + thread.y) * threads.x + thread.x;
  const int block_number = (block.z * blocks.y + block.y) * blocks.x + block.x;
  const int i = block_number * threads.x * threads.y * threads.z + in_block;
  if (thread_index() == thread.x && block_index() == block.x) store_global(out + i, i);
}

TEST_CASE("every place of a grid and of a block runs once") {
  for (const LaunchConfig& config : {LaunchConfig{5, 64}, LaunchConfig{{2, 3, 4}, {4, 8, 2}},
                                     LaunchConfig{{1, 7}, {1, 1, 64}}}) {
    const Dim3 grid = config.grid, block = config.block;
    Buffer<int> out(static_cast<size_t>(grid.x * grid.y * grid.z * block.x * block.y * block.z),
                    "out");
    for (int& x : out) x = -1;
    const auto report = fa::simt::run({}, [&] { launch(number, config, out.data()); });
    CHECK(report.hazards.empty());
    for (size_t i = 0; i < out.size(); ++i) CHECK(out[i] == static_cast<int>(i));
  }
}

// A warp is 32 neighbours with x fastest, which are two rows of 16.
void exchange(float* out) {
  const Dim3 thread = thread_index_3d();
  const float other = shfl_xor(static_cast<float>(thread.y), 16);
  store_global(out + thread.y * 16 + thread.x, other);
}

TEST_CASE("warps of a block with two dimensions") {
  Buffer<float> out(64, "out");
  const auto report = fa::simt::run({}, [&] {
    launch(exchange, {.grid = 1, .block = {16, 4}}, out.data());
  });
  CHECK(report.hazards.empty());
  CHECK(report.counters.shuffle_instructions == 2);
  for (size_t i = 0; i < 64; ++i) CHECK(out[i] == static_cast<float>(i / 16 ^ 1));
}

void nothing() {}

TEST_CASE("launches that no GPU accepts") {
  CHECK_THROWS_AS(launch(nothing, 0, 32, 0), fa::InputError);
  CHECK_THROWS_AS(launch(nothing, 1, 0, 0), fa::InputError);
  CHECK_THROWS_AS(launch(nothing, 1, 1025, 0), fa::InputError);
  CHECK_THROWS_AS(launch(nothing, 1, 32, 232449), fa::InputError);
  CHECK_THROWS_AS(launch(nothing, {.grid = {1, 65536}, .block = 1}), fa::InputError);
  CHECK_THROWS_AS(launch(nothing, {.grid = {1, 1, 0}, .block = 1}), fa::InputError);
  CHECK_THROWS_AS(launch(nothing, {.grid = {65536, 65535}, .block = 1}), fa::InputError);
  CHECK_THROWS_AS(launch(nothing, {.grid = 1, .block = {32, 33}}), fa::InputError);
  CHECK_THROWS_AS(launch(nothing, {.grid = 1, .block = {1, 1, 65}}), fa::InputError);
  CHECK_NOTHROW(launch(nothing, 1, 1024, 232448));
  CHECK_NOTHROW(launch(nothing, {.grid = {1, 2, 3}, .block = {4, 4, 64}}));
}

void launches() { launch(nothing, 1, 32, 0); }

TEST_CASE("a kernel cannot launch") {
  CHECK_THROWS_WITH_AS(launch(launches, 1, 32, 0), doctest::Contains("a kernel cannot launch"),
                       std::logic_error);
  CHECK_NOTHROW(launch(nothing, 1, 32, 0));
}

}  // namespace
