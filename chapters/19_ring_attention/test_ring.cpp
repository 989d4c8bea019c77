// Ring attention on threads, where any number of ranks gives the result of one.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>

#include "chapters/22_backward_on_hopper/chapter.hpp"
#include "common/backward.hpp"
#include "common/check.hpp"
#include "ring.hpp"
#include "thread_transport.hpp"
#include "work.hpp"

using namespace ch19;

namespace {

constexpr float NOTHING = std::numeric_limits<float>::quiet_NaN();
constexpr Schedule SCHEDULES[] = {Schedule::gather, Schedule::ring, Schedule::overlap,
                                  Schedule::zigzag};

struct Whole {
  fa::Tensors tensors;
  int64_t bytes_sent = 0;  // sum over the ranks
};

Whole run(const fa::Problem& problem, Schedule schedule, int ranks, bool with_gradients,
          Device device = Device::cpu, bool hopper_backward = false) {
  Whole whole{{problem}};
  fa::Tensors& tensors = whole.tensors;
  for (auto* rows_of_q : {&tensors.o, &tensors.dq}) rows_of_q->assign(problem.q.size(), NOTHING);
  for (auto* rows_of_k : {&tensors.dk, &tensors.dv}) rows_of_k->assign(problem.k.size(), NOTHING);
  tensors.lse.assign(problem.shape.rows(), NOTHING);
  std::atomic<int64_t> bytes = 0;
  Job job = job_of(problem, schedule, 0, with_gradients);
  job.device = device;
  job.hopper_backward = hopper_backward;
  run_ranks(ranks, [&](Transport& transport) {
    const bool first = transport.rank() == 0;
    bytes += work(transport, job, first ? &tensors : nullptr).bytes_sent;
  });
  whole.bytes_sent = bytes;
  return whole;
}

fa::Problem problem_of(int64_t heads, int64_t group, int64_t len_q, int64_t len_kv, bool causal) {
  fa::Problem problem =
      fa::random_problem({1, heads, len_q, len_kv, 16}, fa::Dtype::f32, 3, 1, group);
  problem.causal = causal;
  problem.d_o = fa::random_values(fa::like_q(problem), fa::Dtype::f32, 3, 0);
  return problem;
}

void agrees(const fa::Problem& problem, int ranks) {
  for (const Schedule schedule : SCHEDULES) {
    CAPTURE(ranks);
    CAPTURE(static_cast<int>(schedule));
    CAPTURE(fa::to_string(problem.shape));
    CAPTURE(problem.causal);
    const Whole whole = run(problem, schedule, ranks, true);
    const fa::Tensors& out = whole.tensors;
    const fa::CheckResult check = fa::check_output(problem, out.o, out.lse);
    CHECK_MESSAGE(check.passed(), fa::describe(check, problem.shape));
    const fa::GradientCheck gradients =
        fa::check_gradients(problem, problem.d_o, out.dq, out.dk, out.dv);
    CHECK_MESSAGE(gradients.passed(), fa::describe(gradients, problem));
  }
}

}  // namespace

TEST_CASE("any number of ranks gives what one gives") {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const bool causal : {false, true}) agrees(problem_of(2, 1, 129, 129, causal), ranks);
}

TEST_CASE("kernels: any number of ranks gives what float64 gives, to bf16") {
  for (const int ranks : {1, 2, 3, 4})
    for (const bool causal : {false, true})
      for (const auto& [heads, group, len_q, len_kv] :
           {std::array<int64_t, 4>{2, 1, 130, 130}, {4, 2, 40, 203}, {3, 3, 150, 61}}) {
        fa::Problem problem =
            fa::random_problem({1, heads, len_q, len_kv, 16}, fa::Dtype::bf16, 3, 1, heads / group);
        problem.causal = causal;
        for (const Schedule schedule : SCHEDULES) {
          CAPTURE(ranks);
          CAPTURE(causal);
          CAPTURE(static_cast<int>(schedule));
          CAPTURE(fa::to_string(problem.shape));
          const Whole whole = run(problem, schedule, ranks, false, Device::emulator);
          const fa::CheckResult check =
              fa::check_output(problem, whole.tensors.o, whole.tensors.lse);
          CHECK_MESSAGE(check.passed(), fa::describe(check, problem.shape));
          // K and V are passed around once, with two bytes per element.
          const int64_t once = 2 * problem.kv_elements() * 2;
          CHECK(whole.bytes_sent == (ranks - 1) * once);
        }
      }
}

TEST_CASE("kernels: gradients by chapter 10 and by chapter 22, to bf16") {
  constexpr int RANKS = 3;
  for (const bool hopper : {false, true})
    for (const bool causal : {false, true}) {
      fa::Problem problem =
          fa::random_problem({1, 4, 40, 90, hopper ? 64 : 16}, fa::Dtype::bf16, 3, 1, 2);
      problem.causal = causal;
      problem.d_o = fa::random_values(fa::like_q(problem), fa::Dtype::bf16, 3, 0);
      for (const Schedule schedule : SCHEDULES) {
        CAPTURE(hopper);
        CAPTURE(causal);
        CAPTURE(static_cast<int>(schedule));
        const Whole whole = run(problem, schedule, RANKS, true, Device::emulator, hopper);
        const fa::Tensors& out = whole.tensors;
        const fa::GradientCheck gradients =
            fa::check_gradients(problem, problem.d_o, out.dq, out.dk, out.dv);
        CHECK_MESSAGE(gradients.passed(), fa::describe(gradients, problem));
        // Forward in bf16, backward in fp32, where dK and dV take one step more in a ring.
        const int64_t once = 2 * problem.kv_elements();
        const int64_t hops = schedule == Schedule::gather ? RANKS - 1 : RANKS;
        CHECK(whole.bytes_sent == once * ((RANKS - 1) * 2 + (RANKS - 1 + hops) * 4));
      }
    }
}

TEST_CASE("on a GPU: gradients of any number of ranks, by chapter 10 and, on a Hopper card, 22" *
          doctest::skip(usable_gpus() == 0)) {
  for (const bool hopper : {false, true}) {
    if (hopper && !fa::gpu_problem(*::ch22::KERNEL.gpu).empty()) continue;
    for (const int64_t dim : {64, 128})
      for (const bool causal : {false, true}) {
        fa::Problem problem = fa::random_problem({1, 4, 300, 520, dim}, fa::Dtype::bf16, 3, 1, 2);
        problem.causal = causal;
        problem.d_o = fa::random_values(fa::like_q(problem), fa::Dtype::bf16, 3, 0);
        for (const Schedule schedule : SCHEDULES)
          for (const int ranks : {1, 2, 3}) {
            const Whole whole = run(problem, schedule, ranks, true, Device::gpu, hopper);
            const fa::Tensors& out = whole.tensors;
            const fa::GradientCheck gradients =
                fa::check_gradients(problem, problem.d_o, out.dq, out.dk, out.dv);
            CHECK_MESSAGE(gradients.passed(), fa::describe(gradients, problem));
          }
      }
  }
}

TEST_CASE("more keys than queries, and the other way; heads that share keys") {
  for (const bool causal : {false, true}) {
    agrees(problem_of(4, 2, 40, 203, causal), 3);
    agrees(problem_of(3, 3, 150, 61, causal), 4);
  }
}

TEST_CASE("ranks that hold nothing") {
  for (const bool causal : {false, true}) agrees(problem_of(1, 1, 5, 3, causal), 8);
}

TEST_CASE("keys travel as often as they must") {
  const fa::Problem problem = problem_of(2, 1, 96, 96, false);
  const int64_t once = 2 * problem.kv_elements() * int64_t{sizeof(float)};  // K and V of all ranks
  for (const int ranks : {1, 2, 4, 8})
    for (const Schedule schedule : SCHEDULES) {
      CHECK(run(problem, schedule, ranks, false).bytes_sent == (ranks - 1) * once);
      // in a ring, dK and dV take one step more
      const int64_t hops = schedule == Schedule::gather ? ranks - 1 : ranks > 1 ? ranks : 0;
      CHECK(run(problem, schedule, ranks, true).bytes_sent == (2 * (ranks - 1) + hops) * once);
    }
}

TEST_CASE("the same bits each time") {
  const fa::Problem problem = problem_of(2, 1, 129, 129, true);
  const Whole first = run(problem, Schedule::zigzag, 4, true);
  for (int i = 0; i < 5; ++i) {
    const Whole again = run(problem, Schedule::zigzag, 4, true);
    for (const auto values :
         {&fa::Tensors::o, &fa::Tensors::lse, &fa::Tensors::dq, &fa::Tensors::dk, &fa::Tensors::dv})
      CHECK(again.tensors.*values == first.tensors.*values);
  }
}

TEST_CASE("rows merge, whatever they are") {
  const float nothing = -std::numeric_limits<float>::infinity();
  float o[] = {1, 2}, lse = 0;
  const float other[] = {3, -2};
  merge_row(o, lse, other, 0);  // equal weights
  CHECK(o[0] == doctest::Approx(2));
  CHECK(o[1] == doctest::Approx(0));
  CHECK(lse == doctest::Approx(std::log(2.0)));
  merge_row(o, lse, other, nothing);
  CHECK(o[0] == doctest::Approx(2));
  merge_row(o, lse, other, 1000);  // e^1000 overflows in fp32
  CHECK(o[0] == 3);
  CHECK(lse == 1000);
  lse = nothing;
  o[0] = 0;
  merge_row(o, lse, other, -1000);
  CHECK(o[0] == 3);
  CHECK(lse == -1000);
  merge_row(o, lse, other, nothing);
  CHECK(lse == -1000);
  // One part has all the weight, and its digits are kept even next to a much larger number.
  float large[] = {3e7f, -3e7f};
  const float small[] = {0.7f, 1.3f};
  lse = 0;
  merge_row(large, lse, small, 100);
  CHECK((large[0] == small[0] && large[1] == small[1]));
}

TEST_CASE("zigzag gives every rank as much to do") {
  const auto visible = [](Layout layout, int ranks, int rank) {
    int64_t pairs = 0;
    for (const Range& piece : pieces_of(layout, 960, ranks, rank))
      for (int64_t i = piece.begin; i < piece.end; ++i) pairs += i + 1;
    return pairs;
  };
  for (const int ranks : {2, 4, 8}) {
    CHECK(visible(Layout::zigzag, ranks, 0) == visible(Layout::zigzag, ranks, ranks - 1));
    CHECK(visible(Layout::in_order, ranks, ranks - 1) > visible(Layout::in_order, ranks, 0) * 2);
  }
}

TEST_CASE("a wait without a transfer is an error") {
  const auto reason = [](int ranks, auto work) -> std::string {
    try {
      run_ranks(ranks, work);
    } catch (const Deadlock& error) {
      return std::string("deadlock: ") + error.what();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(reason(3,
               [](Transport& t) {  // all send and wait before any rank receives
                 float x = 1;
                 t.wait(t.send((t.rank() + 1) % 3, Tag::keys, {&x, 1}));
               })
            .starts_with("deadlock: "));
  CHECK(reason(2, [](Transport& t) {
          float x = 1;
          if (t.rank() == 0) throw std::runtime_error("rank 0 has had enough");
          t.wait(t.receive(0, Tag::keys, {&x, 1}));
        }) == "rank 0 has had enough");
  CHECK(reason(4, [](Transport& t) {  // rank 1 waits for 2, which waits for 0; 3 has ended
          float x = 1;
          if (t.rank() == 0) throw std::runtime_error("rank 0 has had enough");
          if (t.rank() == 1) t.wait(t.receive(2, Tag::keys, {&x, 1}));
          if (t.rank() == 2) t.wait(t.receive(0, Tag::keys, {&x, 1}));
        }) == "rank 0 has had enough");
  CHECK(reason(2, [](Transport& t) {
          float x[2] = {};
          if (t.rank() == 0) t.wait(t.send(1, Tag::keys, {x, 2}));
          if (t.rank() == 1) t.wait(t.receive(0, Tag::keys, {x, 1}));
        }).find("which receives 1") != std::string::npos);
}

TEST_CASE("memory that a message still needs is not given to another") {
  const auto reason = [](auto work) -> std::string {
    try {
      run_ranks(1, work);
    } catch (const MemoryInUse& error) {
      return error.what();
    }
    return "none";
  };
  float x[4] = {1, 2, 3, 4}, y[2] = {};
  CHECK(reason([&](Transport& t) {
          const Request sent = t.send(0, Tag::keys, {x, 2});
          t.wait(t.receive(0, Tag::keys, {x + 1, 2}));
        }) == "rank 0 receives into memory that a message to rank 0 still reads");
  CHECK(reason([&](Transport& t) {
          const Request received = t.receive(0, Tag::keys, {x + 1, 2});
          t.wait(t.send(0, Tag::keys, {x, 2}));
        }) == "rank 0 sends memory that a message from rank 0 still writes");
  CHECK(reason([&](Transport& t) {  // memory that is only read may be sent twice
          const Request sent = t.send(0, Tag::keys, {x, 2}), again = t.send(0, Tag::parts, {x, 2});
          t.wait(t.receive(0, Tag::keys, y));
          t.wait(t.receive(0, Tag::parts, y));
          t.wait(sent);
          t.wait(again);
        }) == "none");
}
