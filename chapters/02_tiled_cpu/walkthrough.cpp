// The commands about loop order: walkthrough and loop-order.

#include <cstdio>
#include <iostream>

#include "commands.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "loop_order.hpp"
#include "text.hpp"

namespace ch02 {
namespace {

// One head of random input, and the output of the run that is being looked at.
struct OneHead {
  explicit OneHead(int64_t length, int64_t dim)
      : problem(fa::random_problem({1, 1, length, length, dim}, fa::Dtype::f32, 0)),
        o(length * dim),
        lse(length) {}

  HeadTensors tensors() {
    const auto& shape = problem.shape;
    return {{problem.q.data(), shape.q, shape.dim},  {problem.k.data(), shape.kv, shape.dim},
            {problem.v.data(), shape.kv, shape.dim}, static_cast<float>(problem.scale),
            {o.data(), shape.q, shape.dim},          lse};
  }
  bool agrees() const { return fa::check_output(problem, o, lse).passed(); }

  fa::Problem problem;
  std::vector<float> o, lse;
};

std::string numbers(const float* values, int64_t count) {
  std::string line;
  for (int64_t i = 0; i < count; ++i) line += text("%8.4f", values[i]);
  return line;
}

void print_step(const LoopStep& step, int64_t dim, int number) {
  std::cout << text("\nstep %d: keys %lld to %lld, queries %lld to %lld\n", number,
                    (long long)step.keys.begin, (long long)step.keys.end - 1,
                    (long long)step.queries.begin, (long long)step.queries.end - 1);
  std::cout << "  load     " << (step.queries.begin == 0 ? "K_j, V_j, " : "")
            << "Q_i, O_i, l_i, m_i\n";
  for (int64_t i = 0; i < step.queries.size(); ++i) {
    std::cout << text("  query %lld  S =", (long long)(step.queries.begin + i))
              << numbers(step.s.row(i), step.keys.size()) << '\n'
              << text("           tile alone: m = %.4f, l = %.4f\n", step.m_tile[i], step.l_tile[i])
              << text("           m %.4f -> %.4f, l %.4f -> %.4f, O =", step.before.m[i],
                      step.after.m[i], step.before.l[i], step.after.l[i])
              << numbers(step.after.o.data() + i * dim, dim) << '\n';
  }
  std::cout << "  store    O_i, l_i, m_i\n";
}

void print_traffic(const char* name, const LoopTraffic& traffic) {
  std::cout << text(
      "%-28s %8lld %8lld %8lld %8lld %9lld %11lld\n", name, (long long)traffic.q_loads,
      (long long)traffic.kv_loads, (long long)traffic.o_loads, (long long)traffic.o_stores,
      (long long)traffic.o_starts, (long long)(traffic.elements_read + traffic.elements_written));
}

void print_traffic_header() {
  std::cout << text("%-28s %8s %8s %8s %8s %9s %11s\n", "", "Q loads", "KV loads", "O loads",
                    "O stores", "O starts", "elements");
}

}  // namespace

int walkthrough_command() {
  constexpr int64_t N = 5, d = 3, M = 59;
  std::cout << "FlashAttention-1 by hand: N = 5 queries and keys, d = 3, fast memory for M = 59 "
               "numbers.\n\n";
  for (const bool round_up : {true, false}) {
    const Blocks blocks = blocks_for(M, d, round_up);
    std::cout
        << text(
               "B_c = %s M / 4d %s = %lld, B_r = min(B_c, d) = %lld: Q %lld + K %lld + V %lld "
               "+ O %lld + S %lld = %lld numbers, ",
               round_up ? "ceil" : "floor", round_up ? "(as printed in the paper)" : "",
               (long long)blocks.cols, (long long)blocks.rows, (long long)(blocks.rows * d),
               (long long)(blocks.cols * d), (long long)(blocks.cols * d),
               (long long)(blocks.rows * d), (long long)(blocks.rows * blocks.cols),
               (long long)blocks.elements(d))
        << (blocks.elements(d) <= M ? "fits\n" : "does not fit\n");
  }
  const Blocks blocks = blocks_for(M, d, false);
  std::cout << text(
      "With m and l of %lld queries it is %lld: one more than M. The formula leaves "
      "them out.\n",
      (long long)blocks.rows, (long long)(blocks.elements(d) + 2 * blocks.rows));
  std::cout << "\nStart: O = 0, l = 0, m = -inf in slow memory.\n";

  OneHead head(N, d);
  int number = 0;
  const LoopTraffic traffic = kv_outer(
      head.tensors(), blocks, 0, [&](const LoopStep& step) { print_step(step, d, ++number); });
  std::cout << '\n';
  print_traffic_header();
  print_traffic("moved", traffic);
  std::cout << (head.agrees() ? "O agrees with the reference.\n" : "O does NOT agree.\n");
  return head.agrees() ? fa::kAgreed : fa::kDisagreed;
}

int loop_order_command() {
  bool agrees = true;
  const auto run = [&](const char* name, OneHead& head, Blocks blocks, int64_t resident,
                       bool outer_q) {
    const LoopTraffic traffic =
        outer_q ? q_outer(head.tensors(), blocks) : kv_outer(head.tensors(), blocks, resident);
    print_traffic(name, traffic);
    agrees = agrees && head.agrees();
  };
  std::cout << "A tile is one query or one key: n = 8.\n";
  print_traffic_header();
  OneHead small(8, 64);
  run("queries outside (FA2)", small, {1, 1}, 0, true);
  run("keys outside (FA1)", small, {1, 1}, 0, false);
  run("  1 tile of O kept", small, {1, 1}, 1, false);
  run("  4 tiles of O kept", small, {1, 1}, 4, false);
  run("  all 8 kept", small, {1, 1}, 8, false);

  std::cout << "\nL = 512, d = 64, tiles of 64 x 64.\n";
  print_traffic_header();
  OneHead large(512, 64);
  run("queries outside (FA2)", large, {64, 64}, 0, true);
  run("keys outside (FA1)", large, {64, 64}, 0, false);
  run("queries outside, 128 x 64", large, {128, 64}, 0, true);
  run("keys outside, 64 x 128", large, {64, 128}, 0, false);
  std::cout << (agrees ? "\nEvery O agrees with the reference.\n" : "\nAn O does NOT agree.\n");
  return agrees ? fa::kAgreed : fa::kDisagreed;
}

}  // namespace ch02
