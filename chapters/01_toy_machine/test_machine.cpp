// The lesson's numbers, such as costs, results, breaks, tables and JSON.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/error.hpp"
#include "common/file.hpp"
#include "generate.hpp"
#include "machine.hpp"
#include "parser.hpp"
#include "report.hpp"
#include "story.hpp"
#include "verify.hpp"

using namespace ch01;
using Values = std::map<std::string, std::vector<float>>;

namespace {

struct Outcome {
  Program program;
  Run run;
  Verdict verdict;
  float out(int i) const { return run.memory.back()[static_cast<std::size_t>(i)]; }  // last array
};

Outcome execute(Program program, const Values& values = {},
                const std::vector<std::string>& break_names = {}) {
  set_inputs(program, values);
  program = without(program, break_names);
  validate(program);
  Run result = run(program, true);
  Verdict verdict = verify(program, result);
  return {program, std::move(result), verdict};
}

Outcome shipped(const std::string& name, const Values& values = {},
                const std::vector<std::string>& break_names = {}) {
  return execute(read_program(shipped_program_path(name)), values, break_names);
}

Outcome generated(const std::string& text, const Values& values = {},
                  const std::vector<std::string>& break_names = {}) {
  return execute(parse_program(text, "generated"), values, break_names);
}

void check_cost(const Outcome& o, int cycles, int loads, int stores, int macs, int passes) {
  CHECK(o.verdict.passed());
  CHECK(o.run.cost.cycles == cycles);
  CHECK(o.run.cost.loads == loads);
  CHECK(o.run.cost.stores == stores);
  CHECK(o.run.cost.macs == macs);
  CHECK(o.run.cost.passes == passes);
}

}  // namespace

TEST_CASE("costs of the matrix products") {
  check_cost(shipped("element"), 7, 4, 1, 2, 1);
  check_cost(shipped("four_elements"), 28, 16, 4, 8, 2);
  check_cost(shipped("inner_product"), 25, 13, 4, 8, 2);
  check_cost(shipped("outer_product"), 22, 10, 4, 8, 2);
  check_cost(shipped("inner_product_6"), 20, 8, 4, 8, 1);
  CHECK(shipped("inner_product").program.registers == 3);
  CHECK(shipped("outer_product").program.registers == 6);
  CHECK(shipped("inner_product").run.cost.intensity() == doctest::Approx(16.0 / 68));
  CHECK(shipped("outer_product").run.cost.intensity() == doctest::Approx(16.0 / 56));
}

TEST_CASE("costs of matrix products of any size") {
  for (int n = 1; n <= 8; ++n) {
    CAPTURE(n);
    const int n2 = n * n, n3 = n2 * n;
    const auto product = [&](Order order, OperandRule rule, int registers, int loads) {
      const Outcome o = generated(matmul_program(order, rule, n));
      CHECK(o.verdict.passed());
      CHECK(o.program.registers == registers);
      CHECK(o.run.cost.loads == loads);
      CHECK(o.run.cost.cycles == loads + n3 + n2);
      CHECK(o.run.cost.stores == n2);
    };
    product(Order::kInner, OperandRule::kFixed, 3, 2 * n3 - (n2 - 1));
    product(Order::kOuter, OperandRule::kFixed, n2 + 2, n3 + n);
    product(Order::kInner, OperandRule::kAny, n2 + n + 1, 2 * n2);
    product(Order::kOuter, OperandRule::kAny, n2 + n + 1, 2 * n2);
  }
}

TEST_CASE("costs of softmax and attention") {
  for (const int n : {1, 2, 3, 6, 50}) {
    CAPTURE(n);
    const Outcome safe = generated(softmax_program(Softmax::kSafe, n));
    CHECK(safe.program.registers == 3);
    check_cost(safe, (2 * n - 1) + 4 * n + 5 * n, 3 * n, n, 0, 3);
    const Outcome online = generated(softmax_program(Softmax::kOnline, n));
    CHECK(online.program.registers == 4);
    check_cost(online, 5 + 9 * (n - 1) + 5 * n, 2 * n, n, 0, 2);  // 5 first, then 9 each
    for (const int dim : {1, 3}) {
      const Outcome attention = generated(attention_program(n, dim));
      CHECK(attention.verdict.passed());
      CHECK(attention.run.cost.loads == dim + 2 * n * dim);
      CHECK(attention.run.cost.stores == dim);
      CHECK(attention.run.cost.passes == 1);
      CHECK(attention.program.registers == 5 + 2 * dim);
    }
  }
}

TEST_CASE("softmax of 1 to 6, and attention with the same values") {
  const float expected[] = {0.0043f, 0.0116f, 0.0315f, 0.0858f, 0.2331f, 0.6337f};
  for (const char* name : {"safe_softmax", "online_softmax"}) {
    const Outcome o = shipped(name);
    for (int i = 0; i < 6; ++i) CHECK(std::abs(o.out(i) - expected[i]) < 5e-5f);
  }
  CHECK(std::abs(shipped("attention").out(0) - 5.4329f) < 5e-5f);
}

TEST_CASE("the shipped files are what the generator writes") {
  const auto file = [](const char* name) { return fa::read_file(shipped_program_path(name)); };
  CHECK(file("inner_product") == matmul_program(Order::kInner, OperandRule::kFixed, 2));
  CHECK(file("outer_product") == matmul_program(Order::kOuter, OperandRule::kFixed, 2));
  CHECK(file("safe_softmax") == softmax_program(Softmax::kSafe, 6));
  CHECK(file("online_softmax") == softmax_program(Softmax::kOnline, 6));
  CHECK(file("attention") == attention_program(6, 1));
}

TEST_CASE("three registers are needed: no shipped product runs with two") {
  for (const char* name : {"element", "four_elements", "inner_product"}) {
    Program program = read_program(shipped_program_path(name));
    program.registers = 2;
    CHECK_THROWS_AS(validate(program), fa::InputError);
  }
}

TEST_CASE("numerical safety: ratio, sum, variance") {
  CHECK(shipped("ratio_safe").verdict.passed());
  const Outcome unsafe = shipped("ratio_unsafe");
  CHECK(std::isnan(unsafe.out(0)));
  CHECK_FALSE(unsafe.verdict.passed());
  CHECK(unsafe.verdict.nonfinite == 1);
  CHECK(shipped("ratio_unsafe", {{"x", {3, 2}}}).verdict.passed());

  CHECK(shipped("sum_plain").out(0) == 16777216.f);  // eight ones were lost
  CHECK_FALSE(shipped("sum_plain").verdict.passed());
  CHECK(shipped("sum_kahan").out(0) == 16777224.f);
  CHECK(shipped("sum_kahan").verdict.passed());

  CHECK(shipped("variance_textbook").out(0) == 32.f);
  CHECK_FALSE(shipped("variance_textbook").verdict.passed());
  CHECK(shipped("variance_welford").out(0) == 30.f);
  CHECK(shipped("variance_welford").verdict.passed());
  CHECK(shipped("variance_textbook", {{"x", {4, 7, 13, 16}}}).verdict.passed());
}

TEST_CASE("no-max: fine below 88.7, then Inf, then NaN") {
  for (const char* name : {"safe_softmax", "online_softmax"}) {
    CAPTURE(name);
    CHECK(shipped(name, {}, {"no-max"}).verdict.passed());
    const Values high{{"x", {1, 2, 3, 4, 5, 88.7f}}}, over{{"x", {1, 2, 3, 4, 5, 88.8f}}};
    CHECK(shipped(name, high).verdict.passed());
    CHECK(shipped(name, over).verdict.passed());
    const Outcome fine = shipped(name, high, {"no-max"});
    CHECK(fine.verdict.nonfinite == 0);
    CHECK(fine.out(5) == doctest::Approx(1));
    const Outcome broken = shipped(name, over, {"no-max"});
    CHECK_FALSE(broken.verdict.passed());
    CHECK(std::isnan(broken.out(5)));
    bool saw_inf = false;
    for (const Step& step : broken.run.steps) {
      for (const Register& reg : step.registers) saw_inf = saw_inf || std::isinf(reg.number);
    }
    CHECK(saw_inf);
    // The sum can exceed the fp32 range although each term is in it: 2·e^88.5. The result is then
    // 0.
    const Values pair{{"x", {1, 2, 3, 4, 88.5f, 88.5f}}};
    CHECK(shipped(name, pair).verdict.passed());
    const Outcome sum = shipped(name, pair, {"no-max"});
    CHECK_FALSE(sum.verdict.passed());
    CHECK(sum.verdict.nonfinite == 0);
    CHECK(sum.out(5) == 0);
  }
  CHECK(shipped("attention", {}, {"no-max"}).verdict.passed());
  const Outcome attention = shipped("attention", {{"k", {1, 2, 3, 4, 5, 89}}}, {"no-max"});
  CHECK(attention.verdict.nonfinite == 1);
}

TEST_CASE("no-rescale: finite and wrong when the maximum grows, right when it comes first") {
  for (const char* name : {"online_softmax", "attention"}) {
    CAPTURE(name);
    const Outcome broken = shipped(name, {}, {"no-rescale"});
    CHECK_FALSE(broken.verdict.passed());
    CHECK(broken.verdict.nonfinite == 0);
    CHECK(broken.verdict.max_abs_error > 0.1);
  }
  CHECK(shipped("online_softmax", {{"x", {6, 5, 4, 3, 2, 1}}}, {"no-rescale"}).verdict.passed());
  CHECK_THROWS_AS(shipped("safe_softmax", {}, {"no-rescale"}), fa::InputError);  // it has no steps
  CHECK_THROWS_AS(shipped("online_softmax", {}, {"no-min"}), fa::InputError);
}

TEST_CASE("a broken promise, a NaN, an unwritten cell and a wrong number do not pass") {
  const std::string head = ".machine alu\n.registers 2\n.input x[2] = 1, 2\n.output out[2]\n";
  const std::string store = "LOAD x[0], R0\nSTORE R0, out[0]\n";
  const Outcome unwritten = generated(head + ".check softmax\n" + store);
  CHECK_FALSE(unwritten.verdict.passed());
  CHECK(unwritten.verdict.nonfinite == 1);
  CHECK(std::isnan(unwritten.verdict.max_abs_error));
  CHECK(unwritten.verdict.first_bad == "out[0] is 1, expected 0.268941");

  const Outcome nan = generated(head +
                                ".check softmax\nLOAD x[0], R0\nSUB R0, R0, R0\n"
                                "DIV R0, R0, R1\nMAX R1, R0, R1\nMAX R0, R1, R1\n"
                                "STORE R1, out[0]\nSTORE R1, out[1]\n");
  CHECK(nan.verdict.mismatches == 2);
  CHECK(nan.verdict.nonfinite == 2);

  Program program = read_program(shipped_program_path("element"));
  program.promised_cycles = 6;
  const Outcome promise = execute(program);
  CHECK_FALSE(promise.verdict.passed());
  CHECK(promise.verdict.broken_promise == "the file promises 6 cycles, the run took 7");

  CHECK_THROWS_AS(generated(head + ".check matmul\n" + store), fa::InputError);  // no a, b, c
  CHECK_THROWS_AS(generated(head + ".check ratio\n" + store), fa::InputError);   // out[2]
  CHECK_THROWS_AS(shipped("element", {{"x", {1}}}), fa::InputError);
  CHECK_THROWS_AS(shipped("element", {{"a", {1}}}), fa::InputError);
}

TEST_CASE("the table shows formulas and numbers") {
  const Outcome o = shipped("element");
  const std::string table = table_text(o.program, o.run);
  CHECK(table.find("   6 │ MAC R0, R1, R2, R2 │ a01 │ b10 │ c00 = a00·b00 + a01·b10\n") !=
        std::string::npos);
  CHECK(table.find("     │                    │ 2   │ 7   │ 19\n") != std::string::npos);
  CHECK(shortened("a00·b00 + a01·b10 + a02·b20 + a03·b30", 30) == "a00·b00 + … + a03·b30");
  CHECK(width_of(shortened(std::string(100, 'x'), 21)) == 21);
}

TEST_CASE("formulas put parentheses where they are needed, and stay bounded") {
  const Symbol a{"a", Symbol::kAtom}, b{"b", Symbol::kAtom};
  CHECK(multiply(add(a, b), b).text == "(a + b)·b");
  CHECK(subtract(a, subtract(a, b)).text == "a − (a − b)");
  CHECK(divide(a, multiply(a, b)).text == "a/(a·b)");
  CHECK(exponential(subtract(a, b)).text == "e^(a − b)");
  CHECK(maximum(maximum(a, b), a).text == "max(a, b, a)");
  Symbol doubling = a;
  for (int i = 0; i < 200; ++i) doubling = add(doubling, doubling);
  CHECK(doubling.text.size() < 1000);
}

TEST_CASE("the JSON report") {
  const Outcome o = shipped("ratio_unsafe");
  const auto json = json_of(o.program, o.run, o.verdict, {});
  for (const char* key : {"chapter", "program", "machine", "breaks", "cycles", "loads", "stores",
                          "macs", "flops", "passes", "dram_reads", "dram_writes", "dram_bytes",
                          "register_count", "steps", "outputs", "check"}) {
    CHECK_MESSAGE(json.contains(key), key);
  }
  CHECK(json["cycles"] == 6);
  CHECK(json["steps"].size() == 6);
  CHECK(json["steps"][0]["instruction"] == "LOAD x[0], R0");
  CHECK(json["steps"][0]["registers"][0] == 100);
  CHECK(json["steps"][0]["registers"][1].is_null());  // empty
  CHECK(json["steps"][0]["symbols"][1].is_null());
  CHECK(json["steps"][1]["registers"][0].is_null());  // Inf
  CHECK(json["steps"][1]["symbols"][0] == "e^x0");
  CHECK(json["outputs"]["out"][0].is_null());
  CHECK(json["check"]["passed"] == false);
  CHECK(json["check"]["nonfinite"] == 1);
  CHECK(json["check"]["max_abs_error"].is_null());
}

TEST_CASE("the story checks every number and says so") {
  std::ostringstream out;
  CHECK(tell_story(out));
  CHECK(out.str().find("NOT") == std::string::npos);
  CHECK(out.str().ends_with("Every result and every cost agrees with the lesson.\n"));
}
