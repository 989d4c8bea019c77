// The subcommands about loop order, which are walkthrough, loop-order and traffic.

#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/json_report.hpp"
#include "loop_order.hpp"
#include "tile.hpp"

namespace ch02 {
namespace {

// One head with random input, and the output of the current run.
struct OneHead {
  OneHead(int64_t length, int64_t dim, bool causal = false)
      : problem(fa::random_problem({1, 1, length, length, dim}, fa::Dtype::f32, 0)),
        o(length * dim),
        lse(length) {
    problem.causal = causal;
  }

  HeadTensors tensors() {
    const auto& shape = problem.shape;
    return {{problem.q.data(), shape.q, shape.dim},
            {problem.k.data(), shape.kv, shape.dim},
            {problem.v.data(), shape.kv, shape.dim},
            static_cast<float>(problem.scale),
            {o.data(), shape.q, shape.dim},
            lse,
            problem.causal};
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
  std::cout << text("%-25s %7lld %8lld %7lld %8lld %8lld %9lld\n", name, (long long)traffic.q_loads,
                    (long long)traffic.kv_loads, (long long)traffic.o_loads,
                    (long long)traffic.o_stores, (long long)traffic.o_starts,
                    (long long)(traffic.elements_read + traffic.elements_written));
}

void print_traffic_header() {
  std::cout << text("%-25s %7s %8s %7s %8s %8s %9s\n", "", "Q loads", "KV loads", "O loads",
                    "O stores", "O starts", "elements");
}

}  // namespace

int walkthrough_command() {
  constexpr int64_t N = 5, d = 3, M = 59;
  std::cout << "FlashAttention-1 by hand: N = 5 queries and keys, d = 3,\n"
               "fast memory for M = 59 numbers.\n\n";
  for (const bool round_up : {true, false}) {
    const Blocks blocks = blocks_for(M, d, round_up);
    std::cout << text(
                     "B_c = %s M / 4d %s= %lld, B_r = min(B_c, d) = %lld:\n"
                     "  Q %lld + K %lld + V %lld + O %lld + S %lld = %lld numbers, ",
                     round_up ? "ceil" : "floor", round_up ? "(as printed in the paper) " : "",
                     (long long)blocks.cols, (long long)blocks.rows, (long long)(blocks.rows * d),
                     (long long)(blocks.cols * d), (long long)(blocks.cols * d),
                     (long long)(blocks.rows * d), (long long)(blocks.rows * blocks.cols),
                     (long long)blocks.elements(d))
              << (blocks.elements(d) <= M ? "fits\n" : "does not fit\n");
  }
  const Blocks blocks = blocks_for(M, d, false);
  std::cout << text(
      "With m and l of %lld queries it is %lld: one more than M.\n"
      "The formula leaves them out.\n",
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

namespace {

constexpr const char* kMatrixNames[kMatrices] = {"Q", "K", "V", "S", "P", "O", "m, l"};

nlohmann::json named(const Elements& elements) {
  nlohmann::json object = nlohmann::json::object();
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
    if (elements[matrix] != 0) object[kMatrixNames[matrix]] = elements[matrix];
  }
  return object;
}

nlohmann::json as_json(const LoopTraffic& traffic, const std::vector<Elements>& fast) {
  nlohmann::json visits = nlohmann::json::array(), memory = nlohmann::json::array();
  for (const Visit& visit : traffic.visits) {
    visits.push_back({{"pass", visit.pass},
                      {"queries", {visit.queries.begin, visit.queries.end}},
                      {"keys", {visit.keys.begin, visit.keys.end}},
                      {"loads", named(visit.loads)},
                      {"stores", named(visit.stores)}});
  }
  for (const Elements& pass : fast) memory.push_back(named(pass));
  return {{"read", traffic.elements_read},
          {"written", traffic.elements_written},
          {"fast_memory", memory},
          {"steps", visits}};
}

void print_line(const char* name, const char* direction, const LoopTraffic& traffic,
                Elements Visit::*which) {
  std::cout << text("%-15s %-7s", name, direction);
  int64_t total = 0;
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
    int64_t sum = 0;
    for (const Visit& visit : traffic.visits) sum += (visit.*which)[matrix];
    std::cout << text(matrix == kMatrices - 1 ? " %5lld" : " %6lld", (long long)sum);
    total += sum;
  }
  std::cout << text(" %8lld\n", (long long)total);
}

}  // namespace

int traffic_command(const CommandOptions& options) {
  const int64_t length = options.length, dim = options.dim;
  const int64_t rows = options.block_q, cols = options.block_kv;
  const Blocks blocks{rows, cols};
  const int64_t tiles = tiles_in(length, rows) * tiles_in(length, cols), most = 1 << 14;
  if (tiles > most) {
    throw fa::InputError(text("--block-q %lld --block-kv %lld: %lld tiles; at most %lld are listed",
                              (long long)rows, (long long)cols, (long long)tiles, (long long)most));
  }
  std::cout << text(
      "%lld queries and keys, d = %lld, tiles of %lld x %lld%s:\n"
      "elements between slow and fast memory.\n%-23s",
      (long long)length, (long long)dim, (long long)rows, (long long)cols,
      options.causal ? ", causal" : "", "");
  for (const char* name : kMatrixNames) {
    std::cout << text(name == kMatrixNames[kMatrices - 1] ? " %5s" : " %6s", name);
  }
  std::cout << text(" %8s\n", "together");

  // The content of fast memory, which is all matrices for one pass, or the operands of each of
  // three passes.
  const Elements all = {rows * dim, cols * dim, cols * dim, rows * cols, 0, rows * dim, 2 * rows};
  const Elements scores = {all[kQ], all[kK], 0, all[kS], 0, 0, 0};
  const Elements values = {0, 0, all[kV], 0, all[kS], all[kO], 0};
  bool agrees = true;
  nlohmann::json orders;
  const auto add = [&](const char* name, const char* key, const std::vector<Elements>& fast,
                       const std::function<LoopTraffic(const HeadTensors&)>& run) {
    OneHead head(length, dim, options.causal);
    const LoopTraffic traffic = run(head.tensors());
    print_line(name, "read", traffic, &Visit::loads);
    print_line("", "written", traffic, &Visit::stores);
    orders[key] = as_json(traffic, fast);
    agrees = agrees && head.agrees();
  };
  add("three passes", "three_passes", {scores, {}, values},
      [&](const HeadTensors& head) { return three_passes(head, blocks); });
  add("keys outside", "keys_outside", {all},
      [&](const HeadTensors& head) { return kv_outer(head, blocks); });
  add("queries outside", "queries_outside", {all},
      [&](const HeadTensors& head) { return q_outer(head, blocks); });
  std::cout << (agrees ? "Every O agrees with the reference.\n" : "An O does NOT agree.\n");
  if (!options.json.empty()) {
    fa::write_json(options.json, {{"length", length},
                                  {"dim", dim},
                                  {"block_q", rows},
                                  {"block_kv", cols},
                                  {"causal", options.causal},
                                  {"orders", orders}});
  }
  return agrees ? fa::kAgreed : fa::kDisagreed;
}

}  // namespace ch02
