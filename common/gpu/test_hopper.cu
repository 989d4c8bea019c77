// Compares the emulator with a Hopper GPU. Every kernel of test_hopper.hpp runs on both, and every
// element of the results must be equal. The values are small integers, whose sums are exact in any
// order. Products of arbitrary e4m3 are the exception, because there both must truncate the sums
// alike.
//
//   test_hopper [N]                   all checks, or only number N; without a GPU of sm_90 it
//   prints
//                                     that and exits with status 77
//   test_hopper --against-emulator    runs the emulator twice, as a test of this program itself

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/gpu/runtime.hpp"
#include "common/gpu/test_hopper.hpp"
#include "common/simt/buffer.hpp"
#include "common/simt/simt.hpp"

void run_on_emulator(const fa::HopperTask& task);

namespace {

using fa::HopperTask;
using fa::Swizzle;

constexpr int kSkipped = 77;
constexpr const char* kSwizzleNames[] = {"no swizzle", "128 B", "64 B", "32 B"};

struct Memory {
  std::vector<std::vector<unsigned char>> in, out;
};

bool on_gpu = true;
int checks = 0, failed = 0, only = 0;  // checks so far; failed ones; the only one to run, 0: all

// Runs the task with these contents of memory. Outputs start as 0xee.
void run(HopperTask task, Memory& memory, bool emulate) {
  std::vector<std::unique_ptr<fa::simt::Buffer<unsigned char>>> host;
  std::vector<std::unique_ptr<fa::GpuBuffer>> device;
  std::vector<void*> places;
  std::vector<std::vector<unsigned char>*> all;
  for (auto& bytes : memory.in) all.push_back(&bytes);
  for (auto& bytes : memory.out) {
    std::memset(bytes.data(), 0xee, bytes.size());
    all.push_back(&bytes);
  }
  for (std::vector<unsigned char>* bytes : all) {
    if (emulate) {
      host.push_back(std::make_unique<fa::simt::Buffer<unsigned char>>(bytes->size(), "memory"));
      std::memcpy(host.back()->data(), bytes->data(), bytes->size());
      places.push_back(host.back()->data());
    } else {
      device.push_back(std::make_unique<fa::GpuBuffer>(bytes->size(), "memory"));
      device.back()->upload(bytes->data());
      places.push_back(device.back()->data());
    }
  }
  for (size_t i = 0; i < memory.in.size(); ++i) task.in[i] = places[i];
  for (size_t i = 0; i < memory.out.size(); ++i) task.out[i] = places[memory.in.size() + i];
  if (emulate) {
    const fa::simt::Report report = fa::simt::run({}, [&] { run_on_emulator(task); });
    if (!report.hazards.empty()) throw std::runtime_error(report.hazards.front().text);
  } else {
    gpu::test_hopper::run(task);
    FA_CUDA_CHECK(cudaDeviceSynchronize());
  }
  for (size_t i = 0; i < memory.out.size(); ++i) {
    const size_t place = memory.in.size() + i;
    if (emulate) {
      std::memcpy(memory.out[i].data(), host[place]->data(), memory.out[i].size());
    } else {
      device[place]->download(memory.out[i].data());
    }
  }
}

bool is_next() {
  ++checks;
  return only == 0 || only == checks;
}

// Runs a task on both sides, compares words of `element_bytes`, and prints one line.
void check(const std::string& name, const HopperTask& task, Memory memory, size_t element_bytes) {
  if (!is_next()) return;
  Memory expected = memory;
  run(task, expected, true);
  run(task, memory, !on_gpu);
  size_t different = 0, compared = 0;
  std::string first;
  for (size_t i = 0; i < memory.out.size(); ++i) {
    for (size_t at = 0; at < memory.out[i].size(); at += element_bytes) {
      ++compared;
      if (std::memcmp(&memory.out[i][at], &expected.out[i][at], element_bytes) == 0) continue;
      if (different++ == 0) {
        uint32_t card = 0, emulator = 0;
        std::memcpy(&card, &memory.out[i][at], element_bytes);
        std::memcpy(&emulator, &expected.out[i][at], element_bytes);
        char text[128];
        std::snprintf(text, sizeof text,
                      "; first: output %zu element %zu: card %08x, emulator %08x", i,
                      at / element_bytes, card, emulator);
        first = text;
      }
    }
  }
  std::printf("%-4s %s: %zu of %zu elements agree%s\n", different == 0 ? "ok" : "FAIL",
              name.c_str(), compared - different, compared, first.c_str());
  if (different != 0) ++failed;
}

template <class T>
std::vector<unsigned char> integers(size_t count, int most, uint32_t seed) {
  std::vector<unsigned char> bytes(count * sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const int value = static_cast<int>(seed >> 16) % (2 * most + 1) - most;
    const T element = fa::from_float<T>(static_cast<float>(value));
    std::memcpy(&bytes[i * sizeof(T)], &element, sizeof(T));
  }
  return bytes;
}
std::vector<unsigned char> space(size_t bytes) { return std::vector<unsigned char>(bytes); }

std::string layout(Swizzle swizzle, bool mn_major) {
  return std::string(mn_major ? "MN-major, " : "K-major, ") +
         kSwizzleNames[static_cast<int>(swizzle)];
}

void check_product(int n, Swizzle a, bool mn_a, Swizzle b, bool mn_b, bool fp16 = false) {
  HopperTask task{HopperTask::product};
  task.n = n;
  task.fp16 = fp16;
  task.swizzle_a = a;
  task.swizzle_b = b;
  task.mn_major_a = mn_a;
  task.mn_major_b = mn_b;
  const auto rows = static_cast<size_t>(n);
  Memory memory;
  memory.in = {fp16 ? integers<fa::fp16>(64 * 16, 8, 1) : integers<fa::bf16>(64 * 16, 8, 1),
               fp16 ? integers<fa::fp16>(rows * 16, 8, 2) : integers<fa::bf16>(rows * 16, 8, 2)};
  memory.out = {space(64 * rows * 4)};
  check("wgmma n " + std::to_string(n) + (fp16 ? " fp16" : "") + ", A " + layout(a, mn_a) + ", B " +
            layout(b, mn_b),
        task, memory, 4);
}

void check_registers(int n) {
  HopperTask task{HopperTask::product_registers};
  task.n = n;
  task.swizzle_b = Swizzle::bytes_128;
  const auto rows = static_cast<size_t>(n);
  Memory memory;
  memory.in = {integers<fa::bf16>(128 * 8, 8, 3), integers<fa::bf16>(rows * 16, 8, 4)};
  memory.out = {space(64 * rows * 4)};
  check("wgmma n " + std::to_string(n) + ", A from registers", task, memory, 4);
}

// Random e4m3 of all codes except NaN. The sums are not exact, so card and emulator must truncate
// the same bits.
void check_e4m3(int n, Swizzle a, Swizzle b, bool registers, uint32_t seed) {
  HopperTask task{registers ? HopperTask::product_registers : HopperTask::product};
  task.n = n;
  task.e4m3 = true;
  task.swizzle_a = a;
  task.swizzle_b = b;
  const auto codes = [&](size_t rows) {
    std::vector<unsigned char> bytes(rows * 32);
    for (unsigned char& byte : bytes) {
      seed = seed * 1664525u + 1013904223u;
      byte = static_cast<unsigned char>(seed >> 24);
      if ((byte & 0x7f) == 0x7f) byte = 0;
    }
    return bytes;
  };
  const auto rows = static_cast<size_t>(n);
  Memory memory;
  memory.in = {codes(64), codes(rows)};
  memory.out = {space(64 * rows * 4)};
  check("wgmma e4m3 n " + std::to_string(n) + ", A " +
            (registers ? std::string("from registers") : layout(a, false)) + ", B " +
            layout(b, false),
        task, memory, 4);
}

HopperTask copy_task(int rank, int row, Swizzle swizzle) {
  HopperTask task{HopperTask::copy};
  task.rank = rank;
  task.row = row;
  task.swizzle_a = swizzle;
  task.bytes = (rank == 1 ? row : row * 8) * 2;
  return task;
}

void check_copy(int rank, int row, Swizzle swizzle, const int (&at)[5]) {
  HopperTask task = copy_task(rank, row, swizzle);
  for (int i = 0; i < rank; ++i) task.at[i] = at[i];
  std::vector<unsigned char> tensor(80 * 11 * 8 * 2);
  for (size_t i = 0; i < tensor.size() / 2; ++i) {
    const auto value = static_cast<uint16_t>(i * 7 + 1);
    std::memcpy(&tensor[i * 2], &value, 2);
  }
  Memory memory;
  memory.in = {tensor};
  memory.out = {space(static_cast<size_t>(task.bytes)), space(tensor.size()), space(128 * 4)};
  std::string where;
  for (int i = 0; i < rank; ++i) where += (i == 0 ? "" : ",") + std::to_string(at[i]);
  check("tma_load and tma_store " + std::to_string(rank) + "d, rows of " + std::to_string(row * 2) +
            " B, " + kSwizzleNames[static_cast<int>(swizzle)] + ", at " + where,
        task, memory, 2);
}

// Rows of a box that start at byte 8. The card runs no check after this one.
void check_misaligned() {
  if (!is_next()) return;
  HopperTask task = copy_task(1, 32, Swizzle::none);
  task.at[0] = 4;
  Memory memory;
  memory.in = {space(80 * 2)};
  memory.out = {space(64), space(80 * 2), space(128 * 4)};
  int refused = 0;
  for (const bool emulate : {true, !on_gpu}) {
    try {
      run(task, memory, emulate);
    } catch (const std::exception& error) {
      if (std::string(error.what()).find("illegal instruction") != std::string::npos) ++refused;
    }
  }
  std::printf("%-4s tma_load 1d at 4, byte 8 of the row: an illegal instruction for both\n",
              refused == 2 ? "ok" : "FAIL");
  if (refused != 2) ++failed;
}

void check_example(int n) {
  HopperTask task{HopperTask::example};
  task.n = n;
  const auto size = static_cast<size_t>(n);
  Memory memory;
  memory.in = {integers<fa::bf16>(64 * size, 3, 5), integers<fa::bf16>(size * size, 3, 6),
               integers<fa::bf16>(size * size, 3, 7)};
  memory.out = {space(64 * size * 4), space(64 * size * 4)};
  check("Q K^T V by tma_load and wgmma, " + std::to_string(n / 64) + " panels of 64 columns", task,
        memory, 4);
}

void check_all() {
  constexpr Swizzle kAll[] = {Swizzle::none, Swizzle::bytes_32, Swizzle::bytes_64,
                              Swizzle::bytes_128};
  const Swizzle widest = Swizzle::bytes_128;
  for (const int n : {8, 64, 128, 256}) check_product(n, widest, false, widest, false);
  for (const int n : {8, 64, 128, 256}) check_registers(n);
  for (const Swizzle swizzle : kAll) {
    check_product(64, swizzle, false, Swizzle::none, false);
    check_product(64, Swizzle::none, false, swizzle, false);
    check_product(64, swizzle, true, Swizzle::none, false);
    check_product(64, Swizzle::none, false, swizzle, true);
  }
  check_product(128, widest, false, widest, true);
  check_product(256, widest, true, widest, true);
  check_product(64, widest, false, widest, true, true);
  for (const Swizzle swizzle : kAll) {
    check_e4m3(64, swizzle, widest, false, 11);
    check_e4m3(64, widest, swizzle, false, 12);
    check_e4m3(128, widest, swizzle, true, 13);
  }
  check_example(64);
  check_example(128);

  // Boxes of a tensor of 70 x 11 x 2 x 2 x 2: inside, across its edges and outside.
  for (const Swizzle swizzle : kAll) {
    const int row = swizzle == Swizzle::none ? 32 : static_cast<int>(swizzle_span(swizzle)) / 2;
    for (int rank = 1; rank <= 5; ++rank) {
      check_copy(rank, row, swizzle, {0, 0, 0, 0, 0});
      check_copy(rank, row, swizzle, {72 - row / 2, 9, 1, 1, 1});
      check_copy(rank, row, swizzle, {-8, -2, -1, 0, -1});
    }
    check_copy(2, row, swizzle, {80, 2, 0, 0, 0});
  }

  HopperTask task{HopperTask::parities};
  Memory memory;
  memory.out = {space(14 * 4)};
  check("mbarrier_try_wait: both parities over six phases", task, memory, 4);
  task.kind = HopperTask::roles;
  memory.out = {space(384 * 4)};
  check("setmaxnreg, elect_one, barrier_red_or", task, memory, 4);
  task.kind = HopperTask::clusters;
  memory.out = {space(16 * 128 * 4), space(16 * 128 * 4)};
  check("cluster_sync, cluster_rank, cluster_size", task, memory, 4);
  check_misaligned();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) only = std::atoi(argv[1]);
  on_gpu = !(argc == 2 && std::string(argv[1]) == "--against-emulator");
  if (on_gpu) {
    std::string problem = fa::gpu_problem();
    if (problem.empty() && fa::gpu_capability() != 90) {
      problem = "the GPU " + fa::gpu_name() + " is sm_" + std::to_string(fa::gpu_capability()) +
                ", and these kernels need sm_90";
    }
    if (!problem.empty()) {
      std::printf("skipped: %s\n", problem.c_str());
      return kSkipped;
    }
  }
  try {
    check_all();
  } catch (const std::exception& error) {
    std::printf("FAIL after %d checks: %s\n", checks, error.what());
    return 1;
  }
  std::printf("%d checks, %d failed, on %s\n", only == 0 ? checks : 1, failed,
              on_gpu ? fa::gpu_name().c_str() : "the emulator, twice");
  return failed == 0 ? 0 : 1;
}
