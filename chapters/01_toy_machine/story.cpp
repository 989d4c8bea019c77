#include "story.hpp"

#include <ostream>
#include <vector>

#include "machine.hpp"
#include "optimum.hpp"
#include "parser.hpp"
#include "report.hpp"
#include "verify.hpp"

namespace ch01 {
namespace {

enum class Outcome { kRight, kWrong, kNotFinite };

// A program of the story, and the costs and results that the lesson states for it.
struct Scene {
  std::string sentence;
  std::string program;
  int cycles, loads, stores, passes;
  Outcome outcome = Outcome::kRight;
  std::vector<std::string> breaks = {};
  std::vector<float> x = {};  // replaces the program's own x
  bool show_table = false;
};

class Story {
 public:
  explicit Story(std::ostream& out) : out_(out) {}

  void say(const std::string& text) { out_ << text << "\n\n"; }

  void play(const Scene& scene) {
    Program program = read_program(shipped_program_path(scene.program));
    if (!scene.x.empty()) set_inputs(program, {{"x", scene.x}});
    program = without(program, scene.breaks);
    validate(program);
    const Run result = run(program, scene.show_table);
    const Verdict verdict = verify(program, result);

    std::string title = scene.program;
    for (const std::string& name : scene.breaks) title += " --break " + name;
    out_ << "── " << title << "\n" << scene.sentence << "\n";
    if (scene.show_table) out_ << "\n" << table_text(program, result) << "\n";
    out_ << cost_text(result.cost) << result_text(program, result, verdict);

    const bool right = verdict.passed() == (scene.outcome == Outcome::kRight) &&
                       (verdict.nonfinite > 0) == (scene.outcome == Outcome::kNotFinite);
    const Cost& cost = result.cost;
    const bool as_priced = cost.cycles == scene.cycles && cost.loads == scene.loads &&
                           cost.stores == scene.stores && cost.passes == scene.passes;
    if (scene.outcome != Outcome::kRight && right) out_ << "(wrong, as it must be)\n";
    if (!right) out_ << "NOT WHAT THE LESSON SAYS: the result\n";
    if (!as_priced) out_ << "NOT WHAT THE LESSON SAYS: the cost\n";
    out_ << "\n";
    all_true_ = all_true_ && right && as_priced;
    if (scene.breaks.empty() && scene.x.empty()) {
      prices_.push_back({title, std::to_string(program.registers), std::to_string(cost.cycles),
                         std::to_string(cost.loads), std::to_string(cost.stores),
                         std::to_string(cost.passes)});
    }
  }

  // the exact text of the table
  void search(const std::vector<std::vector<std::string>>& claimed) {
    const auto found = optimum_table();
    out_ << aligned(found, 1);
    if (std::vector(found.begin() + 1, found.end()) != claimed) {
      out_ << "NOT WHAT THE LESSON SAYS: the search\n";
      all_true_ = false;
    }
    out_ << "\n";
  }

  bool end() {
    out_ << "── what each program costs\n"
         << aligned(prices_, 0) << "\n"
         << (all_true_ ? "Every result and every cost agrees with the lesson.\n"
                       : "Some of it does NOT agree with the lesson; see above.\n");
    return all_true_;
  }

 private:
  std::ostream& out_;
  bool all_true_ = true;
  std::vector<std::vector<std::string>> prices_{
      {"program", "registers", "cycles", "LOAD", "STORE", "passes"}};
};

}  // namespace

std::vector<std::vector<std::string>> optimum_table() {
  std::vector<std::vector<std::string>> rows{
      {"registers", "fixed", "any operands", "inner, fixed", "inner, any operands"}};
  for (int registers = 2; registers <= 8; ++registers) {
    auto& row = rows.emplace_back(1, std::to_string(registers));
    for (const Schedule schedule : {Schedule::kAll, Schedule::kInner}) {
      for (const OperandRule rule : {OperandRule::kFixed, OperandRule::kAny}) {
        const Optimum best = find_optimum(registers, rule, schedule);
        row.push_back(best.possible ? std::to_string(best.cycles) : "impossible");
      }
    }
  }
  return rows;
}

std::string shipped_program_path(const std::string& name) {
  return std::string(CH01_PROGRAMS) + "/" + name + ".txt";
}

bool tell_story(std::ostream& out) {
  using enum Outcome;
  Story story(out);
  story.say(
      "Chapter 01. A machine with a few registers, DRAM, and one instruction per cycle.\n"
      "What does a register save?");

  story.play({"One element of a 2×2 product: two operands come in, one sum stays.",
              "element",
              7,
              4,
              1,
              1,
              kRight,
              {},
              {},
              true});
  story.play({"All four, one by one: four times 7.", "four_elements", 28, 16, 4, 2});
  story.play({"Next element, one operand kept: three loads fewer.", "inner_product", 25, 13, 4, 2});
  story.play({"Four sums at once in six registers: three loads fewer again.", "outer_product", 22,
              10, 4, 2});
  story.say("── optimum\nThe fewest cycles of any program at all, by exhaustive search:");
  const std::string no = "impossible";
  story.search({{"2", no, no, no, no},
                {"3", "25", "25", "25", "25"},
                {"4", "23", "22", "25", "22"},
                {"5", "23", "21", "25", "21"},
                {"6", "22", "20", "25", "20"},
                {"7", "22", "20", "25", "20"},
                {"8", "22", "20", "25", "20"}});
  story.play({"Free operands and six registers: every input is read once.", "inner_product_6", 20,
              8, 4, 1});

  story.play({"Softmax with three registers: maximum, sum, division. x is read three times.",
              "safe_softmax", 65, 18, 6, 3});
  story.play(
      {"With a fourth register the sum corrects itself when the maximum grows.\n"
       "x is read twice.",
       "online_softmax", 80, 12, 6, 2});
  story.play({"Attention needs only the weighted sum of V, so one pass is enough.", "attention", 81,
              13, 1, 1});

  story.play({"Subtract, then take the exponential.", "ratio_safe", 5, 2, 1, 1});
  story.play({"The same number on paper: both exponentials are Inf.", "ratio_unsafe", 6, 2, 1, 1,
              kNotFinite});
  story.play({"A plain sum: 2²⁴ + 1 + 1 + … stays 2²⁴.", "sum_plain", 18, 9, 1, 1, kWrong});
  story.play(
      {"Kahan: the sum keeps each rounding error and adds it back.", "sum_kahan", 51, 9, 1, 1});
  story.play({"Variance from Σx² and (Σx)²: the digits cancel.", "variance_textbook", 21, 6, 1, 1,
              kWrong});
  story.play({"Welford: the running mean corrects itself.", "variance_welford", 29, 8, 1, 1});

  story.play({"Without the maximum, small numbers do no harm.",
              "online_softmax",
              42,
              12,
              6,
              2,
              kRight,
              {"no-max"}});
  story.play({"From 88.7 on, e^x is Inf in fp32, and Inf/Inf is NaN.",
              "online_softmax",
              42,
              12,
              6,
              2,
              kNotFinite,
              {"no-max"},
              {84, 85, 86, 87, 88, 89}});
  story.play({"Without the correction, old terms keep their old maximum: finite, and wrong.",
              "online_softmax",
              75,
              12,
              6,
              2,
              kWrong,
              {"no-rescale"}});
  return story.end();
}

}  // namespace ch01
