// Measures the speed of the emulator, for fiber switches, and chapter 03's kernel with and without
// checks.
//   ./learn bench simt

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "chapters/03_basic_kernel/attention.hpp"
#include "common/guarded_main.hpp"
#include "common/parallel.hpp"
#include "common/simt/fiber.hpp"
#include "common/simt/simt.hpp"

namespace {

using fa::simt::Buffer;
using fa::simt::Config;

struct Time {
  double cpu_ms = 1e30;  // CPU time of all threads, so that other programs do not count
  double wall_ms = 1e30;
};

// Takes the fastest of several runs, because the others were disturbed.
template <class F>
Time best_time(int runs, F f) {
  Time best;
  for (int i = 0; i < runs; ++i) {
    const std::clock_t cpu = std::clock();
    const auto wall = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - wall;
    best.wall_ms = std::min(best.wall_ms, passed.count());
    best.cpu_ms =
        std::min(best.cpu_ms, 1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
  }
  return best;
}

// A ring of 32 fibers, as in a warp, that only hand over.
constexpr int kRing = 32;
constexpr long kSwitches = 4'000'000;
fa::simt::Fiber ring_main, ring[kRing];
long ring_count = 0;

void ring_fiber(fa::simt::transfer_t from) {
  const long me = ring_count % kRing;
  fa::simt::arrive_on(&ring[me], from);
  while (++ring_count < kSwitches) fa::simt::switch_fiber(ring[me], ring[ring_count % kRing]);
  fa::simt::leave_fiber(ring[me], ring_main);
}

double nanoseconds_per_switch() {
  fa::simt::StackPool stacks(kRing);
  const Time best = best_time(5, [&] {
    for (int i = 0; i < kRing; ++i) stacks.prepare(ring[i], i, ring_fiber);
    ring_count = 0;
    fa::simt::switch_fiber(ring_main, ring[0]);
  });
  return best.cpu_ms * 1e6 / static_cast<double>(kSwitches);
}

struct Problem {
  int heads, len_q, len_kv;
  Buffer<fa::bf16> Q, K, V, O;

  Problem(int heads_, int len_q_, int len_kv_)
      : heads(heads_),
        len_q(len_q_),
        len_kv(len_kv_),
        Q(elements(len_q), "Q"),
        K(elements(len_kv), "K"),
        V(elements(len_kv), "V"),
        O(elements(len_q), "O") {
    uint32_t state = 1;
    for (Buffer<fa::bf16>* buffer : {&Q, &K, &V}) {
      for (fa::bf16& x : *buffer) {
        state = state * 1664525u + 1013904223u;
        x = fa::to_bf16(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
      }
    }
  }
  size_t elements(int len) const {
    return static_cast<size_t>(heads) * static_cast<size_t>(len) * 128;
  }

  Time time(const Config& config, int runs) {
    const auto tensor = [&](Buffer<fa::bf16>& buffer, int64_t len) -> fa::TensorRef {
      return {buffer.data(),
              fa::Dtype::bf16,
              {1, heads, len, 128},
              {heads * len * 128, len * 128, 128, 1}};
    };
    const fa::ForwardArgs args{.q = tensor(Q, len_q),
                               .k = tensor(K, len_kv),
                               .v = tensor(V, len_kv),
                               .o = tensor(O, len_q),
                               .scale = 0.0884f};
    return best_time(runs, [&] {
      fa::simt::run(config,
                    [&] { emulator::ch03::launch_attention<128>(args, emulator::NoBreaks{}); });
    });
  }
};

int bench(int, char**) {
  const double ns = nanoseconds_per_switch();
  std::printf("fiber switches            %8.1f million/s %8.1f ns each\n", 1e3 / ns, ns);

  Config plain;
  plain.threads = 1;
  plain.hazards = plain.counters = false;
  Config counters = plain, hazards = plain, both = plain;
  counters.counters = both.counters = true;
  hazards.hazards = both.hazards = true;
  const auto print = [](const char* what, const Time& time) {
    std::printf("  %-23s %8.1f ms of CPU time %8.1f ms\n", what, time.cpu_ms, time.wall_ms);
  };
  Problem small(1, 128, 512);
  std::printf("chapter 03, B 1, H 1, Lq 128, Lkv 512, D 128, one core\n");
  print("plain", small.time(plain, 20));
  print("counters", small.time(counters, 20));
  print("hazards", small.time(hazards, 20));
  print("counters and hazards", small.time(both, 20));

  both.threads = 0;
  Problem large(8, 1024, 1024);
  std::printf("chapter 03, B 1, H 8, L 1024, D 128, %d cores\n", fa::hardware_threads());
  print("counters and hazards", large.time(both, 2));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return fa::guarded_main(argc, argv, bench); }
