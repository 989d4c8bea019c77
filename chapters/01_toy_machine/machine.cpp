#include "machine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/error.hpp"

namespace ch01 {
namespace {

// Returns the larger of two numbers, or NaN if one of them is NaN. std::max and fmax can return the
// other number in that case and would hide the defect.
float larger(float a, float b) { return std::isnan(a) || a > b ? a : b; }

// Returns the value that an instruction other than LOAD and STORE writes to its destination.
Register compute(Op op, const Register& a, const Register& b, const Register& c) {
  switch (op) {
    case Op::kMacZ:
      return {true, a.number * b.number, multiply(a.symbol, b.symbol)};
    case Op::kMac:
      return {true, a.number * b.number + c.number, add(c.symbol, multiply(a.symbol, b.symbol))};
    case Op::kMax:
      return {true, larger(a.number, b.number), maximum(a.symbol, b.symbol)};
    case Op::kSub:
      return {true, a.number - b.number, subtract(a.symbol, b.symbol)};
    case Op::kExp:
      return {true, std::exp(a.number), exponential(a.symbol)};
    case Op::kAdd:
      return {true, a.number + b.number, add(a.symbol, b.symbol)};
    case Op::kMul:
      return {true, a.number * b.number, multiply(a.symbol, b.symbol)};
    case Op::kDiv:
      return {true, a.number / b.number, divide(a.symbol, b.symbol)};
    case Op::kMov:
      return a;
    case Op::kLoad:
    case Op::kStore:
      break;
  }
  return {};
}

int flops_of(Op op) {
  switch (op) {
    case Op::kLoad:
    case Op::kStore:
    case Op::kMov:
      return 0;
    case Op::kMacZ:
    case Op::kMac:
      return 2;
    default:
      return 1;
  }
}

}  // namespace

void set_inputs(Program& program, const std::map<std::string, std::vector<float>>& values) {
  for (const auto& entry : values) {  // clang 14 cannot capture a structured binding
    const std::string& name = entry.first;
    const std::vector<float>& numbers = entry.second;
    const auto array = std::find_if(program.arrays.begin(), program.arrays.end(),
                                    [&](const Array& a) { return a.is_input && a.name == name; });
    if (array == program.arrays.end()) {
      throw fa::InputError("--" + name + ": " + program.name + " has no input of that name");
    }
    if (static_cast<int>(numbers.size()) != array->size()) {
      throw fa::InputError("--" + name + ": expected " + std::to_string(array->size()) +
                           " numbers for " + program.name + ", got " +
                           std::to_string(numbers.size()));
    }
    array->values = numbers;
  }
}

Run run(const Program& program, bool keep_steps) {
  Run result;
  std::vector<std::vector<Register>> dram;  // [array]
  std::vector<std::vector<int>> reads;      // [array][cell], number of reads
  for (const Array& array : program.arrays) {
    const std::size_t size = static_cast<std::size_t>(array.size());
    auto& cells = dram.emplace_back(size);
    reads.emplace_back(size);
    for (std::size_t i = 0; i < size && array.is_input; ++i) {
      const Cell cell{static_cast<int>(dram.size()) - 1, static_cast<int>(i)};
      cells[i] = {true, array.values[i], {cell_symbol(program, cell), Symbol::kAtom}};
    }
  }

  std::vector<Register> registers(static_cast<std::size_t>(program.registers));
  Cost& cost = result.cost;
  for (const Instruction& instruction : program.instructions) {
    ++cost.cycles;
    cost.flops += flops_of(instruction.op);
    cost.macs += instruction.op == Op::kMac || instruction.op == Op::kMacZ;
    const auto [array, index] = instruction.cell;
    std::string formula;
    if (instruction.op == Op::kStore) {
      ++cost.stores;
      dram[array][index] = registers[instruction.registers[0]];
    } else {
      Register value;
      if (instruction.op == Op::kLoad) {
        ++cost.loads;
        if (program.arrays[array].is_input) {
          cost.passes = std::max(cost.passes, ++reads[array][index]);
        }
        value = dram[array][index];
      } else {
        const auto& r = instruction.registers;
        const auto source = [&](int i) {
          return i < info(instruction.op).sources ? registers[r[i]] : Register{};
        };
        value = compute(instruction.op, source(0), source(1), source(2));
      }
      if (!instruction.result_name.empty()) {
        formula = value.symbol.text;
        value.symbol = {instruction.result_name, Symbol::kAtom};
      }
      registers[instruction.destination()] = std::move(value);
    }
    if (keep_steps) result.steps.push_back({registers, std::move(formula)});
  }

  for (const auto& cells : dram) {
    auto& numbers = result.memory.emplace_back();
    for (const Register& cell : cells) {
      numbers.push_back(cell.full ? cell.number : std::numeric_limits<float>::quiet_NaN());
    }
  }
  return result;
}

}  // namespace ch01
