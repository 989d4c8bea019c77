#include "program.hpp"

#include <algorithm>
#include <array>

#include "common/error.hpp"
#include "common/text.hpp"

namespace ch01 {

std::span<const OpInfo> all_ops() {
  static constexpr std::array<OpInfo, 11> kOps{{
      {Op::kLoad, "LOAD", 0, true, true, "LOAD cell, Rd"},
      {Op::kStore, "STORE", 1, true, true, "STORE Rs, cell"},
      {Op::kMacZ, "MAC_Z", 2, true, false, "MAC_Z R0, R1, Rd"},
      {Op::kMac, "MAC", 3, true, false, "MAC R0, R1, Ra, Rd"},
      {Op::kMax, "MAX", 2, false, true, "MAX Ra, Rb, Rd"},
      {Op::kSub, "SUB", 2, false, true, "SUB Ra, Rb, Rd"},
      {Op::kExp, "EXP", 1, false, true, "EXP Ra, Rd"},
      {Op::kAdd, "ADD", 2, false, true, "ADD Ra, Rb, Rd"},
      {Op::kMul, "MUL", 2, false, true, "MUL Ra, Rb, Rd"},
      {Op::kDiv, "DIV", 2, false, true, "DIV Ra, Rb, Rd"},
      {Op::kMov, "MOV", 1, false, true, "MOV Rs, Rd"},
  }};
  return kOps;
}

const OpInfo& info(Op op) {
  const auto ops = all_ops();
  return *std::find_if(ops.begin(), ops.end(), [&](const OpInfo& o) { return o.op == op; });
}

int Array::size() const {
  int cells = 1;
  for (const int length : shape) cells *= length;
  return cells;
}

const Array* Program::find(const std::string& array) const {
  for (const Array& a : arrays) {
    if (a.name == array) return &a;
  }
  return nullptr;
}

std::span<const fa::Break> breaks() {
  static constexpr std::array<fa::Break, 2> kBreaks{{
      {"no-max", 1},
      {"no-rescale", 2},
  }};
  return kBreaks;
}

const char* check_name(Check check) {
  switch (check) {
    case Check::kMatmul:
      return "matmul";
    case Check::kSoftmax:
      return "softmax";
    case Check::kAttention:
      return "attention";
    case Check::kRatio:
      return "ratio";
    case Check::kSum:
      return "sum";
    case Check::kVariance:
      return "variance";
  }
  return "";
}

namespace {

std::vector<int> subscripts(const Program& program, Cell cell) {
  const Array& array = program.arrays[cell.array];
  if (array.shape.size() == 1) return {cell.index};
  return {cell.index / array.shape[1], cell.index % array.shape[1]};
}

std::string bracketed(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += "[" + std::to_string(number) + "]";
  return text;
}

std::string number_text(float value) { return fa::text("%.9g", static_cast<double>(value)); }

}  // namespace

std::string cell_text(const Program& program, Cell cell) {
  return program.arrays[cell.array].name + bracketed(subscripts(program, cell));
}

std::string cell_symbol(const Program& program, Cell cell) {
  const Array& array = program.arrays[cell.array];
  const std::vector<int> at = subscripts(program, cell);
  std::string text = array.name + std::to_string(at[0]);
  if (at.size() == 2) {
    const bool wide = array.shape[0] > 10 || array.shape[1] > 10;
    text += (wide ? "," : "") + std::to_string(at[1]);
  }
  return text;
}

std::string instruction_text(const Program& program, const Instruction& instruction) {
  std::string text = std::string(info(instruction.op).name) + " ";
  if (instruction.op == Op::kLoad) text += cell_text(program, instruction.cell) + ", ";
  for (std::size_t i = 0; i < instruction.registers.size(); ++i) {
    text += (i ? ", R" : "R") + std::to_string(instruction.registers[i]);
  }
  if (instruction.op == Op::kStore) text += ", " + cell_text(program, instruction.cell);
  return text;
}

std::string program_text(const Program& program) {
  const bool mac = program.machine == Machine::kMac;
  std::string text = std::string(".machine ") + (mac ? "mac" : "alu") + "\n";
  text += ".registers " + std::to_string(program.registers) + "\n";
  if (mac) {
    text += std::string(".operands ") +
            (program.operands == OperandRule::kFixed ? "fixed" : "any") + "\n";
  }
  for (const Array& array : program.arrays) {
    text += (array.is_input ? ".input " : ".output ") + array.name + bracketed(array.shape);
    for (std::size_t i = 0; i < array.values.size(); ++i) {
      text += (i ? ", " : " = ") + number_text(array.values[i]);
    }
    text += "\n";
  }
  text += std::string(".check ") + check_name(program.check);
  if (program.check_cell >= 0) {
    const auto output = std::find_if(program.arrays.begin(), program.arrays.end(),
                                     [](const Array& a) { return !a.is_input; });
    text += " " + cell_text(program, {static_cast<int>(output - program.arrays.begin()),
                                      program.check_cell});
  }
  text += "\n";
  if (program.promised_cycles >= 0) text += std::to_string(program.promised_cycles) + " cycles\n";
  text += "\n";
  for (const Instruction& instruction : program.instructions) {
    text += instruction_text(program, instruction);
    if (!instruction.result_name.empty()) text += " -> " + instruction.result_name;
    for (const std::string& name : instruction.removed_by) text += " @" + name;
    text += "\n";
  }
  return text;
}

Program without(const Program& program, const std::vector<std::string>& break_names) {
  fa::parse_breaks(break_names, breaks());
  Program rest = program;
  for (const std::string& name : break_names) {
    const auto removed = [&](const Instruction& instruction) {
      const auto& by = instruction.removed_by;
      return std::find(by.begin(), by.end(), name) != by.end();
    };
    if (std::none_of(program.instructions.begin(), program.instructions.end(), removed)) {
      throw fa::InputError("--break " + name + ": no instruction of " + program.name +
                           " carries @" + name);
    }
    std::erase_if(rest.instructions, removed);
    rest.promised_cycles = -1;
  }
  return rest;
}

}  // namespace ch01
