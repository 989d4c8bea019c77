// Properties of the generated programs on random inputs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "common/error.hpp"
#include "generate.hpp"
#include "machine.hpp"
#include "parser.hpp"
#include "verify.hpp"

using namespace ch01;

namespace {

std::vector<float> random_numbers(std::mt19937& random, int count, float scale) {
  std::normal_distribution<float> normal(0.5f, scale);
  std::vector<float> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(normal(random));
  return numbers;
}

// Returns a random valid program, which reads only what was written.
Program random_program(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Program p;
  p.name = "random";
  p.machine = below(2) ? Machine::kMac : Machine::kAlu;
  const bool mac = p.machine == Machine::kMac;
  p.registers = 3 + below(6);
  p.operands = mac && below(2) ? OperandRule::kAny : OperandRule::kFixed;
  p.arrays = {{"x", {5}, true, random_numbers(random, 5, 3)},
              {"w", {2, 11}, true, random_numbers(random, 22, 3)},
              {"out", {4}, false, {}}};
  p.check = Check::kSum;
  p.promised_cycles = below(2) ? below(100) : -1;
  std::vector<bool> written(4);
  for (int r = 0; r < p.registers; ++r) {
    const int array = below(2);
    p.instructions.push_back(
        {Op::kLoad, {r}, {array, below(p.arrays[array].size())}, "", {}, {}, {}, {}});
  }
  while (p.instructions.size() < 40) {
    const OpInfo& op = all_ops()[static_cast<std::size_t>(below(11))];
    if (!(mac ? op.on_mac : op.on_alu)) continue;
    Instruction i;
    i.op = op.op;
    for (int r = 0; r < op.sources; ++r) i.registers.push_back(below(p.registers));
    if (op.op == Op::kMac || op.op == Op::kMacZ) i.registers[0] = 0, i.registers[1] = 1;
    if (i.writes_register()) i.registers.push_back(below(p.registers));
    if (op.op == Op::kLoad) i.cell = {1, below(22)};
    if (op.op == Op::kStore) i.cell = {2, below(4)};
    if (i.writes_register() && below(3) == 0)
      i.result_name = "v" + std::to_string(below(100)) + "′";
    if (below(4) == 0) i.removed_by.push_back(below(2) ? "no-max" : "no-rescale");
    p.instructions.push_back(std::move(i));
  }
  return p;
}

}  // namespace

TEST_CASE("a program survives being written and read, and runs the same") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const Program p = random_program(random);
    const std::string text = program_text(p);
    Program q = parse_program(text, "random");
    REQUIRE(program_text(q) == text);
    validate(q);
    const Run before = run(p, true), after = run(q, true);
    REQUIRE(before.steps.size() == after.steps.size());
    for (std::size_t i = 0; i < before.steps.size(); ++i) {
      for (std::size_t r = 0; r < before.steps[i].registers.size(); ++r) {
        const Register &a = before.steps[i].registers[r], &b = after.steps[i].registers[r];
        const bool same = a.number == b.number || (std::isnan(a.number) && std::isnan(b.number));
        REQUIRE((same && a.full == b.full && a.symbol.text == b.symbol.text));
      }
    }
    const Cost& cost = after.cost;
    CHECK(cost.cycles == static_cast<int>(q.instructions.size()));
    CHECK(cost.loads + cost.stores + cost.macs <= cost.cycles);
  }
}

TEST_CASE("a damaged trace file is refused or runs, and never crashes") {
  std::mt19937 random(5);
  const std::string texts[] = {matmul_program(Order::kOuter, OperandRule::kFixed, 2),
                               softmax_program(Softmax::kOnline, 2), attention_program(2, 2)};
  const std::string alphabet = "R0123456789[],.-> @#=acxqkvMLSDEP_\n\t\xff";
  int refused = 0, ran = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    std::string text = texts[trial % 3];
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1 + random() % 4);
      }
    }
    try {
      Program p = parse_program(text, "damaged");
      validate(p);
      verify(p, run(p, true));
      ++ran;
    } catch (const fa::InputError&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
  CHECK(ran > 100);
}

TEST_CASE("softmax, safe and online, agrees with float64 for any length and scale") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    const int n = 1 + static_cast<int>(random() % 60);
    const float scale = std::pow(10.f, static_cast<float>(random() % 5) - 1);  // 0.1 to 1000
    CAPTURE(n);
    CAPTURE(scale);
    const std::vector<float> x = random_numbers(random, n, scale);
    for (const Softmax algorithm : {Softmax::kSafe, Softmax::kOnline}) {
      Program p = parse_program(softmax_program(algorithm, n), "softmax");
      set_inputs(p, {{"x", x}});
      validate(p);
      const Run result = run(p, false);
      const Verdict verdict = verify(p, result);
      CHECK_MESSAGE(verdict.passed(), verdict.first_bad);
      double sum = 0;
      for (const float weight : result.memory[1]) sum += weight;
      CHECK(sum == doctest::Approx(1).epsilon(1e-4));
      // The comparison must detect a weight that is off by a thousandth of its value.
      Run spoiled = result;
      float& largest = *std::max_element(spoiled.memory[1].begin(), spoiled.memory[1].end());
      largest *= 1.001f;
      CHECK_FALSE(verify(p, spoiled).passed());
    }
  }
}

TEST_CASE("attention agrees with float64, and without the correction does not") {
  std::mt19937 random(3);
  int broken = 0;
  for (int trial = 0; trial < 100; ++trial) {
    const int n = 1 + static_cast<int>(random() % 40), dim = 1 + static_cast<int>(random() % 6);
    Program p = parse_program(attention_program(n, dim), "attention");
    set_inputs(p, {{"q", random_numbers(random, dim, 1)},
                   {"k", random_numbers(random, n * dim, 1)},
                   {"v", random_numbers(random, n * dim, 1)}});
    validate(p);
    CHECK(verify(p, run(p, false)).passed());
    if (n == 1) continue;
    Program q = without(p, {"no-rescale"});
    validate(q);
    const Verdict verdict = verify(q, run(q, false));
    CHECK(verdict.nonfinite == 0);
    broken += !verdict.passed();
  }
  CHECK(broken > 70);  // correct only if the first key has the largest score
}

TEST_CASE("matrix products agree with float64 in every order") {
  std::mt19937 random(4);
  for (int n = 1; n <= 8; ++n) {
    const std::vector<float> a = random_numbers(random, n * n, 10);
    const std::vector<float> b = random_numbers(random, n * n, 10);
    for (const Order order : {Order::kInner, Order::kOuter}) {
      for (const OperandRule rule : {OperandRule::kFixed, OperandRule::kAny}) {
        Program p = parse_program(matmul_program(order, rule, n), "matmul");
        set_inputs(p, {{"a", a}, {"b", b}});
        validate(p);
        CHECK(verify(p, run(p, false)).passed());
      }
    }
  }
}
