#include "parser.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/error.hpp"
#include "common/file.hpp"
#include "common/parse.hpp"
#include "scanner.hpp"

namespace ch01 {
namespace {

constexpr int kMaxLength = 1 << 16;  // largest side and largest size of an array

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Program parse() {
    program_.name = name_;
    std::string_view rest = text_;
    for (int line = 1; !rest.empty(); ++line) {
      const std::size_t end = rest.find('\n');
      parse_line(rest.substr(0, end), line);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    const Place top{1, 1};
    if (program_.instructions.empty()) fail(name_, top, "no instructions");
    if (!has_check_) {
      fail(name_, top, "no .check line: expected .check and what the output must be: " + checks());
    }
    return std::move(program_);
  }

 private:
  static std::string checks() { return "matmul, softmax, attention, ratio, sum or variance"; }

  void parse_line(std::string_view text, int line) {
    Scanner scan(text, line, name_);
    if (scan.at_end()) return;
    const Place place = scan.place();
    if (scan.next_is_digit()) {
      if (program_.promised_cycles >= 0) scan.fail_at(place, "a second promise of cycles");
      program_.promised_cycles = scan.whole_number("the number of cycles", 1 << 24);
      const Place unit_place = scan.place();
      if (scan.word() != "cycles") scan.fail_at(unit_place, "expected 'cycles' after a number");
      return scan.expect_end();
    }
    const std::string word = scan.word();
    if (word.starts_with(".")) {
      parse_directive(scan, place, word);
    } else {
      parse_instruction(scan, place, word);
    }
    scan.expect_end();
  }

  void parse_directive(Scanner& scan, Place place, const std::string& word) {
    const Place value_place = scan.place();
    if (word == ".machine") {
      const std::string machine = scan.word();
      if (machine != "mac" && machine != "alu") {
        scan.fail_at(value_place, ".machine '" + machine + "': accepted: mac, alu");
      }
      once(scan, place, word, has_machine_);
      program_.machine = machine == "mac" ? Machine::kMac : Machine::kAlu;
    } else if (word == ".registers") {
      once(scan, place, word, has_registers_);
      program_.registers = scan.whole_number(".registers", kMaxRegisters);
      if (program_.registers < 1) scan.fail_at(value_place, ".registers 0: at least 1");
    } else if (word == ".operands") {
      const std::string rule = scan.word();
      if (rule != "fixed" && rule != "any") {
        scan.fail_at(value_place, ".operands '" + rule + "': accepted: fixed, any");
      }
      once(scan, place, word, has_operands_);
      program_.operands = rule == "fixed" ? OperandRule::kFixed : OperandRule::kAny;
    } else if (word == ".input" || word == ".output") {
      parse_array(scan, word == ".input");
    } else if (word == ".check") {
      once(scan, place, word, has_check_);
      parse_check(scan);
    } else {
      scan.fail_at(place, "unknown directive '" + word +
                              "': accepted: .machine .registers .operands .input .output .check");
    }
  }

  void once(const Scanner& scan, Place place, const std::string& word, bool& seen) {
    if (seen) scan.fail_at(place, word + " stands twice");
    if (!program_.instructions.empty() && word != ".check") {
      scan.fail_at(place, word + " must be before the first instruction");
    }
    seen = true;
  }

  void parse_array(Scanner& scan, bool is_input) {
    Array array;
    array.is_input = is_input;
    const Place place = scan.place();
    array.name = scan.word();
    if (array.name.empty()) scan.fail_at(place, "expected the array's name, such as x[4]");
    if (program_.find(array.name)) scan.fail_at(place, "array " + array.name + " stands twice");
    while (scan.accept('[')) {
      const Place length_place = scan.place();
      if (array.shape.size() == 2) {
        scan.fail_at(length_place, "arrays have one or two subscripts");
      }
      array.shape.push_back(scan.whole_number("length", kMaxLength));
      if (array.shape.back() == 0) scan.fail_at(length_place, "length 0: at least 1");
      if (array.shape.size() == 2 && array.shape[0] > kMaxLength / array.shape[1]) {
        scan.fail_at(place, "array " + array.name + " is too big: at most " +
                                std::to_string(kMaxLength) + " cells");
      }
      scan.expect(']', "the length");
    }
    if (array.shape.empty()) scan.fail_here("expected '[' after the array's name");
    if (is_input) {
      if (scan.accept('=')) {
        do array.values.push_back(scan.number("value"));
        while (scan.accept(','));
        if (static_cast<int>(array.values.size()) != array.size()) {
          scan.fail_at(place, "array " + array.name + " has " + std::to_string(array.size()) +
                                  " cells, but " + std::to_string(array.values.size()) +
                                  " values stand here");
        }
      } else {
        for (int i = 1; i <= array.size(); ++i) array.values.push_back(static_cast<float>(i));
      }
    }
    program_.arrays.push_back(std::move(array));
  }

  void parse_check(Scanner& scan) {
    const Place place = scan.place();
    const std::string word = scan.word();
    constexpr std::array kAll{Check::kMatmul, Check::kSoftmax, Check::kAttention,
                              Check::kRatio,  Check::kSum,     Check::kVariance};
    const auto found = std::find_if(kAll.begin(), kAll.end(),
                                    [&](Check check) { return word == check_name(check); });
    if (found == kAll.end()) {
      scan.fail_at(place, ".check '" + word + "': accepted: " + checks());
    }
    program_.check = *found;
    if (scan.at_end()) return;
    const Place cell_place = scan.place();
    const Cell cell = parse_cell(scan);
    if (program_.arrays[cell.array].is_input) {
      scan.fail_at(cell_place, "only a cell of the output can be checked");
    }
    program_.check_cell = cell.index;
  }

  void parse_instruction(Scanner& scan, Place place, const std::string& word) {
    if (!has_machine_) {
      scan.fail_at(place, "no .machine line before the first instruction: accepted: mac, alu");
    }
    const auto ops = all_ops();
    const bool mac = program_.machine == Machine::kMac;
    const auto op =
        std::find_if(ops.begin(), ops.end(), [&](const OpInfo& o) { return word == o.name; });
    if (op == ops.end() || !(mac ? op->on_mac : op->on_alu)) {
      const std::string shown = word.empty() ? scan.rest_of_token() : word;
      std::string listed;
      for (const OpInfo& o : ops) {
        if (mac ? o.on_mac : o.on_alu) listed += " " + std::string(o.name);
      }
      scan.fail_at(place, (op == ops.end() ? "unknown instruction '" + shown + "'"
                                           : word + " is not on this machine") +
                              ": the " + (mac ? "MAC" : "ALU") + " machine has" + listed);
    }
    Instruction instruction;
    instruction.op = op->op;
    instruction.place = place;
    const std::string form = std::string(" (") + op->syntax + ")";
    if (op->op == Op::kLoad) {
      instruction.cell_place = scan.place();
      instruction.cell = parse_cell(scan);
      scan.expect(',', "the cell" + form);
    }
    const int count = op->sources + (instruction.writes_register() ? 1 : 0);
    for (int i = 0; i < count; ++i) {
      if (i) scan.expect(',', "the register" + form);
      parse_register(scan, instruction, form);
    }
    if (op->op == Op::kStore) {
      scan.expect(',', "the register" + form);
      instruction.cell_place = scan.place();
      instruction.cell = parse_cell(scan);
      const Array& array = program_.arrays[instruction.cell.array];
      if (array.is_input) {
        scan.fail_at(instruction.cell_place, "array " + array.name + " is an input: read-only");
      }
    }
    if (scan.accept(',')) scan.fail_at(scan.place(), "too many operands" + form);
    parse_result_name(scan, instruction);
    parse_breaks(scan, instruction);
    program_.instructions.push_back(std::move(instruction));
  }

  void parse_register(Scanner& scan, Instruction& instruction, const std::string& form) {
    const Place place = scan.place();
    if (!scan.accept('R') && !scan.accept('r')) {
      scan.fail_here("expected a register, such as R0" + form);
    }
    instruction.registers.push_back(scan.whole_number("the register's number", 999));
    instruction.register_places.push_back(place);
  }

  void parse_result_name(Scanner& scan, Instruction& instruction) {
    const Place place = scan.place();
    if (!scan.accept('-')) return;
    if (!scan.accept('>')) scan.fail_at(place, "expected '->' and a name for the result");
    instruction.result_name = scan.symbol();
    if (instruction.result_name.empty()) scan.fail_here("expected a name after '->'");
    if (!instruction.writes_register()) {
      scan.fail_at(place, "STORE has no result to name");
    }
  }

  void parse_breaks(Scanner& scan, Instruction& instruction) {
    while (true) {
      const Place place = scan.place();
      if (!scan.accept('@')) return;
      const std::string name = scan.word();
      const auto known = breaks();
      if (std::none_of(known.begin(), known.end(),
                       [&](const fa::Break& b) { return name == b.name; })) {
        scan.fail_at(place, "'@" + name + "' is not a break: accepted: @no-max, @no-rescale");
      }
      instruction.removed_by.push_back(name);
    }
  }

  Cell parse_cell(Scanner& scan) {
    const Place place = scan.place();
    const std::string array_name = scan.word();
    if (array_name.empty()) scan.fail_here("expected a cell, such as a[0][1]");
    const Array* array = program_.find(array_name);
    if (!array) {
      scan.fail_at(place, "no array '" + array_name + "': declare it with .input or .output");
    }
    Cell cell{static_cast<int>(array - program_.arrays.data()), 0};
    for (const int length : array->shape) {
      scan.expect('[', "array " + array_name + ", which has " +
                           std::to_string(array->shape.size()) + " subscripts,");
      const Place subscript_place = scan.place();
      const int subscript = scan.whole_number("a subscript", kMaxLength);
      if (subscript >= length) {
        scan.fail_at(subscript_place, "subscript " + std::to_string(subscript) +
                                          " is outside array " + array_name + ": 0 to " +
                                          std::to_string(length - 1));
      }
      scan.expect(']', "the subscript");
      cell.index = cell.index * length + subscript;
    }
    if (scan.accept('[')) {
      scan.fail_at(place, "array " + array_name + " has " + std::to_string(array->shape.size()) +
                              " subscripts");
    }
    return cell;
  }

  std::string_view text_;
  const std::string& name_;
  Program program_;
  bool has_machine_ = false, has_registers_ = false, has_operands_ = false, has_check_ = false;
};

}  // namespace

Program parse_program(const std::string& text, const std::string& name) {
  return Parser(fa::without_byte_order_mark(text, name), name).parse();
}

Program read_program(const std::string& path) { return parse_program(fa::read_file(path), path); }

void validate(const Program& program) {
  if (program.registers == 0) {
    throw fa::InputError(program.name + ": no .registers line and no --registers");
  }
  std::vector<bool> full(static_cast<std::size_t>(program.registers));
  std::vector<std::vector<bool>> written;
  for (const Array& array : program.arrays) {
    written.emplace_back(static_cast<std::size_t>(array.size()), array.is_input);
  }
  for (const Instruction& instruction : program.instructions) {
    const OpInfo& op = info(instruction.op);
    for (std::size_t i = 0; i < instruction.registers.size(); ++i) {
      const int r = instruction.registers[i];
      const Place place = instruction.register_places[i];
      const std::string register_name = "R" + std::to_string(r);
      if (r >= program.registers) {
        fail(program.name, place,
             register_name + " does not exist: the machine has R0 to R" +
                 std::to_string(program.registers - 1));
      }
      const bool is_mac = instruction.op == Op::kMac || instruction.op == Op::kMacZ;
      if (is_mac && i < 2 && program.operands == OperandRule::kFixed && r != static_cast<int>(i)) {
        fail(program.name, place,
             std::string("the ") + (i ? "second" : "first") + " operand of " + op.name + " is R" +
                 std::to_string(i) + ", not " + register_name + " (.operands any lifts this)");
      }
      if (static_cast<int>(i) < op.sources && !full[r]) {
        fail(program.name, place, register_name + " is empty: nothing was put into it yet");
      }
    }
    const auto cell = instruction.cell;
    if (instruction.op == Op::kLoad && !written[cell.array][cell.index]) {
      fail(program.name, instruction.cell_place,
           cell_text(program, cell) + " was not written yet: nothing to load");
    }
    if (instruction.op == Op::kStore) written[cell.array][cell.index] = true;
    if (instruction.writes_register()) full[instruction.destination()] = true;
  }
}

}  // namespace ch01
