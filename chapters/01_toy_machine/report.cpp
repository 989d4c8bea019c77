#include "report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/json_report.hpp"
#include "common/text.hpp"
#include "common/words.hpp"

namespace ch01 {
namespace {

constexpr int kCellWidth = 34;

std::string plural(int count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t right) {
  std::vector<int> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text, rule;
  for (const int width : widths) {
    rule += rule.empty() ? "" : "─┼─";
    for (int i = 0; i < width; ++i) rule += "─";
  }
  for (const auto& row : rows) {
    if (&row == &rows[1]) text += rule + "\n";
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(static_cast<std::size_t>(widths[i] - width_of(row[i])), ' ');
      line += (i ? " │ " : "") + (i < right ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string table_text(const Program& program, const Run& run) {
  std::vector<std::vector<std::string>> rows{{"step", "instruction"}};
  for (int r = 0; r < program.registers; ++r) rows[0].push_back("R" + std::to_string(r));
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const Step& step = run.steps[i];
    std::vector<std::string> formulas{std::to_string(i + 1),
                                      instruction_text(program, instruction)};
    std::vector<std::string> numbers{"", ""};
    for (int r = 0; r < program.registers; ++r) {
      const Register& reg = step.registers[r];
      std::string formula = reg.symbol.text;
      // The row that assigns a name to a value also shows the value.
      if (!step.formula.empty() && r == instruction.destination()) {
        formula += " = " + shortened(step.formula, kCellWidth - width_of(formula) - 3);
      }
      formulas.push_back(shortened(formula, kCellWidth));
      numbers.push_back(reg.full ? number_text(reg.number) : "");
    }
    rows.push_back(std::move(formulas));
    rows.push_back(std::move(numbers));
  }
  return aligned(rows, 1);
}

std::string cost_text(const Cost& cost) {
  std::string text = plural(cost.cycles, "cycle") + ": " + std::to_string(cost.loads) + " LOAD, ";
  if (cost.macs) text += std::to_string(cost.macs) + " MAC, ";
  const int other = cost.cycles - cost.loads - cost.stores - cost.macs;
  if (other) text += std::to_string(other) + " ALU, ";
  text += std::to_string(cost.stores) + " STORE\n";
  text += "DRAM: " + plural(cost.loads, "read") + ", " + plural(cost.stores, "write") + ", " +
          std::to_string(cost.bytes()) + " bytes; " + std::to_string(cost.passes) +
          (cost.passes == 1 ? " pass" : " passes") + " over the input\n";
  text += "arithmetic intensity: " + std::to_string(cost.flops) + " FLOP / " +
          std::to_string(cost.bytes()) + " bytes = " + fa::text("%.3f", cost.intensity()) +
          " FLOP per byte\n";
  return text;
}

std::string result_text(const Program& program, const Run& run, const Verdict& verdict) {
  std::string text;
  for (std::size_t i = 0; i < program.arrays.size(); ++i) {
    const Array& array = program.arrays[i];
    if (array.is_input) continue;
    const int columns = array.shape.back();
    const int rows = array.size() / columns;
    constexpr int kShown = 8;  // numbers per row, and number of rows
    for (int row = 0; row < std::min(rows, kShown); ++row) {
      text += row ? std::string(array.name.size() + 2, ' ') : array.name + " =";
      for (int column = 0; column < std::min(columns, kShown); ++column) {
        const int index = row * columns + column;
        const bool skipped = program.check_cell >= 0 && index != program.check_cell;
        text += " " + (skipped ? "·" : number_text(run.memory[i][index]));
      }
      text += columns > kShown ? " …\n" : "\n";
    }
    if (rows > kShown) text += "    …\n";
  }
  if (verdict.mismatches == 0) {
    text += "agrees with the direct computation in float64\n";
  } else {
    text += fa::wrapped(
        "WRONG: " + std::to_string(verdict.mismatches) + " of " +
        plural(verdict.compared, "number") +
        (verdict.nonfinite > 0 ? ", " + std::to_string(verdict.nonfinite) + " NaN or Inf" : "") +
        "; the first: " + verdict.first_bad + "\n");
  }
  if (!verdict.broken_promise.empty()) text += "WRONG: " + verdict.broken_promise + "\n";
  return text;
}

nlohmann::json json_of(const Program& program, const Run& run, const Verdict& verdict,
                       const std::vector<std::string>& break_names) {
  using nlohmann::json;
  const Cost& cost = run.cost;
  json report = {
      {"chapter", "01_toy_machine"},
      {"program", program.name},
      {"machine", program.machine == Machine::kMac ? "mac" : "alu"},
      {"breaks", break_names},
      {"cycles", cost.cycles},
      {"loads", cost.loads},
      {"stores", cost.stores},
      {"macs", cost.macs},
      {"flops", cost.flops},
      {"passes", cost.passes},
      {"dram_reads", cost.loads},
      {"dram_writes", cost.stores},
      {"dram_bytes", cost.bytes()},
      {"register_count", program.registers},
      {"check",
       {{"passed", verdict.passed()},
        {"compared", verdict.compared},
        {"mismatches", verdict.mismatches},
        {"nonfinite", verdict.nonfinite},
        {"max_abs_error", fa::json_number(verdict.max_abs_error)},
        {"first_bad", verdict.first_bad},
        {"broken_promise", verdict.broken_promise}}},
  };
  if (program.machine == Machine::kMac) {
    report["operands"] = program.operands == OperandRule::kFixed ? "fixed" : "any";
  }
  json& outputs = report["outputs"] = json::object();
  for (std::size_t i = 0; i < program.arrays.size(); ++i) {
    if (program.arrays[i].is_input) continue;
    json& numbers = outputs[program.arrays[i].name] = json::array();
    for (const float number : run.memory[i]) numbers.push_back(fa::json_number(number));
  }
  json& arrays = report["arrays"] = json::array();
  for (const Array& array : program.arrays) {
    json values = json::array();
    for (const float number : array.values) values.push_back(number_text(number));
    arrays.push_back({{"name", array.name},
                      {"shape", array.shape},
                      {"input", array.is_input},
                      {"values", std::move(values)}});
  }
  json& steps = report["steps"] = json::array();
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const OpInfo& op = info(instruction.op);
    json registers = json::array(), symbols = json::array();
    for (const Register& reg : run.steps[i].registers) {
      registers.push_back(reg.full ? fa::json_number(reg.number) : json(nullptr));
      symbols.push_back(reg.full ? json(reg.symbol.text) : json(nullptr));
    }
    json step = {{"step", i + 1},
                 {"instruction", instruction_text(program, instruction)},
                 {"op", op.name},
                 {"line", instruction.place.line},
                 {"reads", std::vector<int>(instruction.registers.begin(),
                                            instruction.registers.begin() + op.sources)},
                 {"registers", std::move(registers)},
                 {"symbols", std::move(symbols)},
                 {"formula", run.steps[i].formula}};
    if (op.sources < static_cast<int>(instruction.registers.size())) {
      const int written = instruction.destination();
      step["writes"] = written;
      step["number"] = number_text(run.steps[i].registers[written].number);
    }
    if (instruction.op == Op::kLoad || instruction.op == Op::kStore) {
      step["cell"] = {{"array", instruction.cell.array},
                      {"index", instruction.cell.index},
                      {"name", cell_text(program, instruction.cell)}};
    }
    steps.push_back(std::move(step));
  }
  return report;
}

}  // namespace ch01
