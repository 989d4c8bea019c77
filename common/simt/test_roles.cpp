// A complete attention kernel with Hopper's instructions, in which a producer and two consumers
// share a ring of two tiles. It is correct under every schedule, every synchronization that is left
// out is detected, and it runs fast enough for teaching.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "common/simt/hopper_example.hpp"
#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using namespace emulator::hopper_example;
using fa::bf16;
using fa::simt::Buffer;
using fa::simt::Config;
using fa::simt::Report;

constexpr int kConsumers = 2, kStages = 2, kRows = kConsumers * ROWS;
constexpr float kNegInf = -std::numeric_limits<float>::infinity();

// O = softmax(Q K^T) V for 128 rows of Q.
template <int BLOCK_KV, int HEAD_DIM>
void attention(const TensorMap Q_map, const TensorMap K_map, const TensorMap V_map, float* O,
               int tiles) {
  constexpr uint32_t KV_BYTES = tile_bytes(BLOCK_KV, HEAD_DIM);
  constexpr uint32_t Q_BYTES = tile_bytes(ROWS, HEAD_DIM);
  const uint32_t Q_smem = dynamic_smem(), K_smem = Q_smem + kConsumers * Q_BYTES;
  const uint32_t V_smem = K_smem + kStages * KV_BYTES, barriers = V_smem + kStages * KV_BYTES;
  const auto barrier = [&](int kind, int stage) {
    return barriers + static_cast<uint32_t>(kind * kStages + stage) * 8;
  };
  const auto K_full = [&](int s) { return barrier(0, s); };
  const auto V_full = [&](int s) { return barrier(1, s); };
  const auto K_empty = [&](int s) { return barrier(2, s); };
  const auto V_empty = [&](int s) { return barrier(3, s); };
  const uint32_t Q_full = barrier(4, 0);
  const auto stage_bytes = [](int stage) { return static_cast<uint32_t>(stage) * KV_BYTES; };

  if (thread_index() == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(K_full(stage), 1);
      mbarrier_init(V_full(stage), 1);
      mbarrier_init(K_empty(stage), kConsumers * 4);
      mbarrier_init(V_empty(stage), kConsumers * 4);
    }
    mbarrier_init(Q_full, 1);
    fence_mbarrier_init();
  }
  block_sync();

  const int role = thread_index() / 128;
  if (role == 0) {
    setmaxnreg_dec<24>();
    if (thread_index() == 0) {
      mbarrier_arrive_expect_tx(Q_full, kConsumers * Q_BYTES);
      for (int i = 0; i < kConsumers; ++i)
        tma_load_3d(Q_smem + static_cast<uint32_t>(i) * Q_BYTES, Q_map, 0, i * ROWS, 0, Q_full);
      for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % kStages, parity = tile / kStages % 2;
        mbarrier_wait(K_empty(stage), parity ^ 1);
        mbarrier_arrive_expect_tx(K_full(stage), KV_BYTES);
        tma_load_3d(K_smem + stage_bytes(stage), K_map, 0, tile * BLOCK_KV, 0, K_full(stage));
        mbarrier_wait(V_empty(stage), parity ^ 1);
        mbarrier_arrive_expect_tx(V_full(stage), KV_BYTES);
        tma_load_3d(V_smem + stage_bytes(stage), V_map, 0, tile * BLOCK_KV, 0, V_full(stage));
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const uint32_t Q_own = Q_smem + static_cast<uint32_t>(role - 1) * Q_BYTES;
  float O_rmem[HEAD_DIM / 8][4] = {}, m[2] = {kNegInf, kNegInf}, l[2] = {};
  mbarrier_wait(Q_full, 0);
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % kStages, parity = tile / kStages % 2;
    float S_rmem[BLOCK_KV / 8][4];
    mbarrier_wait(K_full(stage), parity);
    wgmma_fence();
    for (int step = 0; step < HEAD_DIM / 16; ++step)
      wgmma<bf16>(S_rmem, along_rows(Q_own, ROWS, step),
                  along_rows(K_smem + stage_bytes(stage), BLOCK_KV, step), step > 0);
    wgmma_commit();
    wgmma_wait<0>(S_rmem);
    if (thread_index() % 32 == 0) mbarrier_arrive(K_empty(stage));

    uint32_t P_rmem[BLOCK_KV / 16][4];
    for (int half = 0; half < 2; ++half) {
      float row_max = m[half];
      for (auto& s : S_rmem) row_max = max(row_max, max(s[half * 2], s[half * 2 + 1]));
      row_max = max(row_max, shfl_xor(row_max, 1));
      row_max = max(row_max, shfl_xor(row_max, 2));
      const float rescale = std::exp(m[half] - row_max);
      m[half] = row_max;
      l[half] *= rescale;
      for (auto& o : O_rmem) {
        o[half * 2] *= rescale;
        o[half * 2 + 1] *= rescale;
      }
      for (int j = 0; j < BLOCK_KV / 8; ++j) {
        const float p0 = std::exp(S_rmem[j][half * 2] - row_max);
        const float p1 = std::exp(S_rmem[j][half * 2 + 1] - row_max);
        l[half] += p0 + p1;
        P_rmem[j / 2][j % 2 * 2 + half] = pack<bf16>(p0, p1);
      }
    }
    mbarrier_wait(V_full(stage), parity);
    wgmma_fence();
    for (int step = 0; step < BLOCK_KV / 16; ++step)
      wgmma<bf16, Major::mn>(O_rmem, P_rmem[step],
                             across_rows(V_smem + stage_bytes(stage), BLOCK_KV, step), true);
    wgmma_commit();
    wgmma_wait<0>(O_rmem);
    if (thread_index() % 32 == 0) mbarrier_arrive(V_empty(stage));
  }
  const int t = thread_index() % 128;
  for (int half = 0; half < 2; ++half) {
    l[half] += shfl_xor(l[half], 1);
    l[half] += shfl_xor(l[half], 2);
    const int row = (role - 1) * ROWS + t / 32 * 16 + t % 32 / 4 + half * 8;
    for (int j = 0; j < HEAD_DIM / 8; ++j)
      for (int i = 0; i < 2; ++i)
        store_global(O + row * HEAD_DIM + j * 8 + t % 4 * 2 + i, O_rmem[j][half * 2 + i] / l[half]);
  }
}

template <int BLOCK_KV, int HEAD_DIM>
struct Problem {
  int len_kv;
  Buffer<bf16> Q{kRows * HEAD_DIM, "Q"}, K, V;
  Buffer<float> O{kRows * HEAD_DIM, "O"};
  explicit Problem(int len)
      : len_kv(len),
        K(static_cast<size_t>(len * HEAD_DIM), "K"),
        V(static_cast<size_t>(len * HEAD_DIM), "V") {
    uint32_t state = 1;
    for (Buffer<bf16>* buffer : {&Q, &K, &V}) {
      for (bf16& x : *buffer) {
        state = state * 1664525u + 1013904223u;
        x = fa::to_bf16(static_cast<float>(state >> 8) * 0x1p-24f - 0.5f);
      }
    }
  }
  Report run(const Config& config) {
    for (float& x : O) x = std::numeric_limits<float>::quiet_NaN();
    const size_t smem = 2 * tile_bytes(ROWS, HEAD_DIM) + 4 * tile_bytes(BLOCK_KV, HEAD_DIM) + 128;
    return fa::simt::run(config, [&] {
      launch(attention<BLOCK_KV, HEAD_DIM>, 1, 384, smem, tile_map(Q.data(), kRows, HEAD_DIM, ROWS),
             tile_map(K.data(), len_kv, HEAD_DIM, BLOCK_KV),
             tile_map(V.data(), len_kv, HEAD_DIM, BLOCK_KV), O.data(), len_kv / BLOCK_KV);
    });
  }
  double worst_error() const {
    double worst = 0;
    for (int row = 0; row < kRows; ++row) {
      std::vector<double> p(static_cast<size_t>(len_kv)), o(HEAD_DIM);
      double sum = 0;
      const auto at = [](const Buffer<bf16>& x, int i, int d) {
        return double{fa::to_float(x[static_cast<size_t>(i * HEAD_DIM + d)])};
      };
      for (int key = 0; key < len_kv; ++key) {
        double s = 0;
        for (int d = 0; d < HEAD_DIM; ++d) s += at(Q, row, d) * at(K, key, d);
        sum += p[static_cast<size_t>(key)] = std::exp(s);
      }
      for (int d = 0; d < HEAD_DIM; ++d) {
        double exact = 0;
        for (int key = 0; key < len_kv; ++key) exact += p[static_cast<size_t>(key)] * at(V, key, d);
        const double error =
            std::abs(exact / sum - double{O[static_cast<size_t>(row * HEAD_DIM + d)]});
        worst = fa::max_keeping_nan(error, worst);
      }
    }
    return worst;
  }
};

TEST_CASE("producer and consumers: right, and the same bits under 100 schedules") {
  Problem<16, 64> problem(16 * 6);
  Config config;
  CHECK(texts(problem.run(config)) == "");
  CHECK(problem.worst_error() < 2e-3);
  const std::vector<float> expected(problem.O.begin(), problem.O.end());
  for (config.schedule_seed = 1; config.schedule_seed <= 100; ++config.schedule_seed) {
    CAPTURE(config.schedule_seed);
    CHECK(texts(problem.run(config)) == "");
    CHECK(std::memcmp(problem.O.data(), expected.data(), problem.O.bytes()) == 0);
  }
}

TEST_CASE("whatever is left out is found: each barrier, wait, fence and expect_tx") {
  Problem<16, 64> problem(16 * 6);
  const Report intact = problem.run({});
  int left_out = 0;
  for (const fa::simt::Synchronization& sync : intact.synchronizations) {
    ++left_out;
    if (sync.instruction == "setmaxnreg_inc") continue;  // not an error, because a GPU would spill
    for (uint64_t seed = 0; seed < 5; ++seed) {
      CAPTURE(sync.instruction);
      CAPTURE(sync.where.line);
      Config config{.schedule_seed = seed, .leave_out = {{.site = to_string(sync.where)}}};
      CHECK(kinds(problem.run(config)) != "");
    }
  }
  // 5 init, fence, block_sync; producer: 1 + 2 expect, 2 waits; consumers: 3 waits, 2 fences, 2
  // wgmma_wait, 2 arrivals; 2 setmaxnreg
  CHECK(left_out == 23);
}

TEST_CASE("128 x 512 x 128 on one core with all checks") {
  Problem<128, 128> problem(512);
  Config config{.threads = 1};
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    CHECK(texts(problem.run(config)) == "");
    best = std::min(best, 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  CHECK(problem.worst_error() < 2e-3);
  MESSAGE("CPU time: " << best << " ms");
}

using Kernel = void (*)(float* out, bool broken);
std::string twins(Kernel kernel) {
  return fa::simt::check_twins(
      [=](const Config& config, bool broken) {
        return fa::simt::run(config, [&] { launch(kernel, 1, 384, 0, nullptr, broken); });
      },
      "deadlock");
}

// Three warpgroups have 168 registers per thread, 504 in all.
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
  const std::string text = twins(registers);
  CHECK(text.find("8 warps (warp 4 first) wait at setmaxnreg_inc 240 (") != std::string::npos);
  CHECK(text.find("0 registers per thread are free") != std::string::npos);
  twins(too_many_registers);
  CHECK_THROWS_WITH_AS(
      launch(
          +[] { setmaxnreg_dec<240>(); }, 1, 384, 0),
      doctest::Contains("setmaxnreg_dec to 240 registers, but each thread has 168"),
      std::runtime_error);
}

TEST_CASE("elect_one, and a vote on a named barrier") {
  Buffer<float> out(1024, "out");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Config config{.schedule_seed = seed};
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
